-- One row per test without a verdict: a fault of the machine (infra), or something it needs is missing (unscored). No failures.
select
    model,
    problem_id,
    sample,
    turn,
    instruction_id,
    outcome,
    reason,
    left(detail, 200) as detail,
    episode_id,
    run_id
from test_verdicts
where outcome in ('infra', 'unscored')
order by model, run_id, problem_id, sample, turn, instruction_id
