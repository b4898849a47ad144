-- One row per run x episode x turn x rubric x dimension x judge.
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
    output_tokens,
    dimension,
    label,
    answer_json,
    rubric_version,
    n_calls,
    latency_s,
    served_model,
    is_reused,
    reasoning_tokens
from incoming
qualify row_number() over (
    partition by run_id, episode_id, turn, rubric, dimension, judge
    order by unscored_reason is not null, judgement_id, "value", label
) = 1
