-- One row per expectation of the run $run_id that failed or crashed.
select
    table_name,
    expectation,
    column_name,
    crashed,
    blocking,
    unexpected_count,
    element_count,
    detail,
    docs_path
from quality_checks
where run_id = $run_id and not success
order by blocking desc, table_name, expectation, column_name
