-- One row per night x run x role x model that Parley served for it. `hours`: NULL where the night was killed.
create table served_hours (
    night_id varchar not null,
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    role varchar not null,
    role_model varchar not null,
    hours double,
    gpus double
)
