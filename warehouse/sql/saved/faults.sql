-- One row per test without a verdict: a machine fault (infra) or a missing requirement (unscored). Failed tests are in @failures.
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
