-- One row per judged run with status `finished` that a quality check withholds and nobody released.
select
    checked.run_id,
    'checks_passed: is recorded as finished, but ' || count(*) || ' of its quality checks withhold it, the first being '
    || min(checked.table_name || ' ' || checked.expectation) as fault
from quality_checks as checked
semi join judged_runs as judged on checked.run_id = judged.run_id
inner join runs on checked.run_id = runs.run_id
where checked.blocking and not checked.success and runs.released_because is null
group by checked.run_id
order by checked.run_id
