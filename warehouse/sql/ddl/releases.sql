-- One row per run that a person has released although its checks withhold it.
create table releases (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    because varchar not null,
    withheld_reason varchar not null,
    released_at varchar not null,
    results_digest varchar not null
)
