-- One row per run x episode x turn x instruction. A row left by a superseded part gives way to one with an outcome of the model.
select
    run_id,
    benchmark,
    model,
    episode_id,
    problem_id,
    sample,
    turn,
    instruction_id,
    outcome,
    detail,
    reason,
    duration_s,
    verdict_id,
    sandbox,
    n_cases,
    n_passed
from incoming
qualify row_number() over (
    partition by run_id, episode_id, turn, instruction_id
    order by outcome = 'infra', verdict_id nulls last, outcome
) = 1
