-- One row per release of a run that its checks withhold, in the order of `number`.
create table releases (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    because varchar not null,
    withheld_reason varchar not null,
    released_at varchar not null,
    results_digest varchar not null,
    released_by varchar not null,
    number bigint not null
)
