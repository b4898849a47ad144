-- One row per published run x episode x turn x instruction tested on that turn's answer, with the run's isolation.
-- A pass that the audit convicted counts as failed with reason `forged`. `plain_outcome` is the outcome of the tests alone.
create view test_verdicts as
with
forged as (
    select run_id, episode_id, turn, instruction_id, verdict_id, decoy from forgery_audit where outcome = 'forged'
)
select
    tested.run_id,
    tested.benchmark,
    tested.model,
    tested.episode_id,
    tested.problem_id,
    tested.sample,
    tested.turn,
    tested.instruction_id,
    if(forged.run_id is null, tested.outcome, 'failed') as outcome,
    if(forged.run_id is null, tested.detail, 'forged: the tests also pass with ' || forged.decoy) as detail,
    if(forged.run_id is null, tested.reason, 'forged') as reason,
    tested.duration_s,
    tested.verdict_id,
    tested.sandbox,
    tested.n_cases,
    if(forged.run_id is null, tested.n_passed, tested.n_passed * 0) as n_passed,
    runs.isolated,
    tested.outcome as plain_outcome
from test_verdict_rows as tested
inner join runs
    on tested.run_id = runs.run_id
left join forged
    on tested.run_id = forged.run_id
    and tested.episode_id = forged.episode_id
    and tested.turn = forged.turn
    and tested.instruction_id = forged.instruction_id
    and tested.verdict_id = forged.verdict_id
