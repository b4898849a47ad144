-- One row per test that failed, raised an error or timed out, by run, problem and turn. Machine faults: @faults.
select
    model,
    problem_id,
    sample,
    turn,
    instruction_id,
    outcome,
    plain_outcome,
    reason,
    left(detail, 200) as detail,
    episode_id,
    run_id
from test_verdicts
where outcome in ('failed', 'error', 'timeout')
order by model, run_id, problem_id, sample, turn, instruction_id
