-- One row per run x table x expectation.
select
    run_id,
    benchmark,
    model,
    table_name,
    suite,
    expectation,
    column_name,
    success,
    crashed,
    blocking,
    unexpected_count,
    element_count,
    detail,
    checked_at,
    docs_path
from incoming
