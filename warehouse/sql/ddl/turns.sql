-- One row per published run x episode that it contains x message, in the order of `position`.
-- `round` is 'instruction' or 'feedback' for a user's message in a dynamic dialogue, else NULL.
create view turns as
select
    run_id,
    benchmark,
    model,
    episode_id,
    problem_id,
    sample,
    position,
    turn,
    "role",
    "content",
    input_tokens,
    output_tokens,
    latency_s,
    finish_reason,
    served_model,
    n_calls,
    compilation_feedback,
    execution_feedback,
    verbal_feedback,
    list_filter(labels, lambda label: label.key = 'round')[1].value as round,
    reasoning,
    reasoning_tokens,
    paid_by_run_id
from steps
where kind = 'message'
