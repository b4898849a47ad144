-- One row per run x episode x turn x rubric x judge.
select
    run_id,
    benchmark,
    model,
    episode_id,
    problem_id,
    sample,
    turn,
    rubric,
    judge,
    judgement_id,
    "value",
    unscored_reason,
    raw,
    input_tokens,
    output_tokens
from incoming
qualify row_number() over (
    partition by run_id, episode_id, turn, rubric, judge
    order by "value" is null, judgement_id, "value"
) = 1
