-- One row per night: an invocation of `nightly` or `run`.
create table nights (
    night_id varchar not null,
    started_at varchar not null,
    finished_at varchar not null,
    run_ids varchar[] not null,
    n_published bigint not null,
    n_withheld bigint not null
)
