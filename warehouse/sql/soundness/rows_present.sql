-- One row per judged run x empty table that every run with results fills.
with
judged as (
    select run_id from judged_runs
),
lacking as (
    select run_id, 'rows_present: has no scores, so that no mart shows it' as fault from judged
    where run_id not in (select run_id from score_rows where run_id in (select run_id from judged))
    union all
    select run_id, 'rows_present: names no episodes' as fault from judged
    where run_id not in (select run_id from run_episodes where run_id in (select run_id from judged))
)
select run_id, fault from lacking
order by run_id, fault
