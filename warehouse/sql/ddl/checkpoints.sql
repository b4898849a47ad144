-- One row per checkpoint that a night took: its digest is the `revision` of its runs.
create table checkpoints (
    digest varchar not null,
    family varchar not null,
    step bigint,
    model varchar not null,
    kind varchar not null,
    source varchar not null,
    path varchar not null,
    changed_at varchar not null,
    found_at varchar not null
)
