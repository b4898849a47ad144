-- One row: the version of this file's tables.
create table _warehouse_version (
    version varchar not null
)
