-- One row: the version of the file's tables.
create table _warehouse_version (
    version varchar not null
)
