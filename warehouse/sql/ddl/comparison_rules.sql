-- One row per run for which an invocation stated how it is compared.
create table comparison_rules (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    family varchar not null,
    baseline varchar,
    threshold double not null,
    thresholds struct(key varchar, value double)[] not null
)
