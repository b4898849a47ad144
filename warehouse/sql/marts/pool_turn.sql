-- One row per run x episode x turn x metric: scores pooled within the turn.
with
changed as (
    select runs.run_id, runs.sandbox, runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
)
select
    scores.run_id,
    scores.benchmark,
    scores.model,
    scores.episode_id,
    scores.problem_id,
    scores.sample,
    scores.turn,
    scores.metric,
    stable_mean(scores.value) as mean,
    min(scores.value) as min,
    max(scores.value) as max,
    count(scores.value) as n,
    count(*) filter (where is_fault(scores.unscored_reason)) as n_unscored,
    count(*) filter (where scores.value is null and not is_fault(scores.unscored_reason)) as n_not_applicable,
    changed.sandbox,
    changed.isolated
from scores
inner join changed
    on scores.run_id = changed.run_id
group by all
