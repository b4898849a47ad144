-- One row per step of an attempt at an episode.
with
messages as (
    select
        run_id,
        part,
        episode_id,
        attempt,
        generate_subscripts(steps, 1) as position,
        unnest(steps) as step
    from incoming
)
select
    run_id,
    part,
    episode_id,
    attempt,
    position,
    step.turn as turn,
    step."role" as "role",
    step."content" as "content",
    step.input_tokens as input_tokens,
    step.output_tokens as output_tokens,
    step.latency_s as latency_s,
    step.finish_reason as finish_reason,
    step.served_model as served_model,
    step.n_calls as n_calls,
    step.feedback.compilation as compilation_feedback,
    step.feedback.execution as execution_feedback,
    step.feedback.verbal as verbal_feedback,
    step.kind as kind,
    step.calls as calls,
    step.call_id as call_id,
    step.tree as tree,
    step.labels as labels,
    step.adapted as adapted,
    step.reasoning as reasoning,
    step.reasoning_tokens as reasoning_tokens
from messages
