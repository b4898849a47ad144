-- One row per published run x episode that it contains x step (message, tool call, observation, artifact), by `position`.
create view steps as
with
contained as (
    select run_id, benchmark, model, episode_id, problem_id, sample from run_episodes
),
chosen as (
    select episode_id, paid_by_run_id, part, attempt from chosen_attempts
)
select
    contained.run_id,
    contained.benchmark,
    contained.model,
    contained.episode_id,
    contained.problem_id,
    contained.sample,
    taken.position,
    taken.turn,
    taken.role,
    taken.content,
    taken.input_tokens,
    taken.output_tokens,
    taken.latency_s,
    taken.finish_reason,
    taken.served_model,
    taken.n_calls,
    taken.compilation_feedback,
    taken.execution_feedback,
    taken.verbal_feedback,
    taken.kind,
    taken.calls,
    taken.call_id,
    taken.tree,
    taken.labels,
    taken.adapted,
    taken.reasoning,
    taken.reasoning_tokens,
    chosen.paid_by_run_id
from contained
inner join chosen
    on contained.episode_id = chosen.episode_id
inner join turn_rows as taken
    on chosen.episode_id = taken.episode_id
    and chosen.paid_by_run_id = taken.run_id
    and chosen.part = taken.part
    and chosen.attempt = taken.attempt
