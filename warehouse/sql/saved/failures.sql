-- One row per test run that did not pass, by run, problem and turn.
select
    model,
    problem_id,
    sample,
    turn,
    instruction_id,
    outcome,
    reason,
    left(detail, 200) as detail,
    episode_id
from test_verdicts
where outcome <> 'passed'
order by model, problem_id, sample, turn, instruction_id
