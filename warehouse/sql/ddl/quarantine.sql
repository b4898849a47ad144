-- One row per benchmark x dataset version x input row that was not staged.
create table quarantine (
    benchmark varchar not null,
    dataset_version varchar not null,
    source_file varchar not null,
    source_line bigint not null,
    reason varchar not null,
    detail varchar not null,
    excerpt varchar not null
)
