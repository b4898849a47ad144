-- One row per Parquet part of the lake that the warehouse has loaded.
create table _loaded_parts (
    table_name varchar not null,
    folder varchar not null,
    part varchar not null,
    size bigint not null,
    mtime_ns bigint not null,
    n_rows bigint not null
)
