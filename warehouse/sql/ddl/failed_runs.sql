-- One row per night x run that an error stopped, or kept from being begun. `run_id`: empty where it could not be planned.
create table failed_runs (
    night_id varchar not null,
    run_id varchar not null,
    title varchar not null,
    setting varchar not null,
    model varchar not null,
    reason varchar not null
)
