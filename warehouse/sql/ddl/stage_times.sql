-- One row per night x run x stage gone through. Stages of runs side by side overlap. `run_id`: empty where it is of no run.
create table stage_times (
    night_id varchar not null,
    run_id varchar not null,
    title varchar not null,
    stage varchar not null,
    started_at varchar not null,
    seconds double not null
)
