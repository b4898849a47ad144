-- One row per judged run with audited passes that are not passes in its test verdicts.
with
judged as (
    select run_id from judged_runs
),
audited as (
    select run_id, episode_id, turn, instruction_id, verdict_id from forgery_audit where run_id in (select run_id from judged)
),
passed as (
    select run_id, episode_id, turn, instruction_id, verdict_id from test_verdict_rows
    where run_id in (select run_id from judged) and outcome = 'passed'
)
select
    audited.run_id,
    'audited_passes: ' || count(*) || ' audited passes are none of its test verdicts, the first being of episode '
    || min(audited.episode_id) as fault
from audited
anti join passed
    on audited.run_id = passed.run_id
    and audited.episode_id = passed.episode_id
    and audited.turn = passed.turn
    and audited.instruction_id = passed.instruction_id
    and audited.verdict_id = passed.verdict_id
group by audited.run_id
order by audited.run_id
