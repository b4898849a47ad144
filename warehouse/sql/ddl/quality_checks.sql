-- One row per run x table x expectation, of published and withheld runs.
create table quality_checks (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    table_name varchar not null,
    suite varchar not null,
    expectation varchar not null,
    column_name varchar,
    success boolean not null,
    crashed boolean not null,
    blocking boolean not null,
    unexpected_count bigint,
    element_count bigint,
    detail varchar not null,
    checked_at varchar not null,
    docs_path varchar
)
