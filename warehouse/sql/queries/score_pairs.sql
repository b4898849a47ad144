-- One row per metric x score of $run_id or $other_run_id: paired by dialog, sample, turn and instruction.
with
dialogs_played as (
    select distinct run_episodes.run_id, episode_rows.episode_id, episode_rows.dialog_id
    from run_episodes
    inner join episode_rows
        on run_episodes.episode_id = episode_rows.episode_id
    where run_episodes.run_id in ($run_id, $other_run_id)
),
places as (
    select
        scored.run_id,
        scored.metric,
        scored.metric_version,
        scored.problem_id,
        dialogs_played.dialog_id,
        scored.sample,
        scored.turn,
        coalesce(scored.instruction_id, '') as instruction_id,
        scored.value
    from score_rows as scored
    inner join dialogs_played
        on scored.run_id = dialogs_played.run_id
        and scored.episode_id = dialogs_played.episode_id
    where scored.value is not null
),
ours as (
    select metric, metric_version, problem_id, dialog_id, sample, turn, instruction_id, avg(value) as value
    from places where run_id = $run_id group by all
),
theirs as (
    select metric, metric_version, problem_id, dialog_id, sample, turn, instruction_id, avg(value) as value
    from places where run_id = $other_run_id group by all
)
select
    coalesce(ours.metric, theirs.metric) as metric,
    ours.metric_version,
    theirs.metric_version as other_metric_version,
    coalesce(ours.problem_id, theirs.problem_id) as problem_id,
    ours.value,
    theirs.value as other_value
from ours
full join theirs
    on ours.metric = theirs.metric
    and ours.problem_id = theirs.problem_id
    and ours.dialog_id = theirs.dialog_id
    and ours.sample = theirs.sample
    and ours.turn = theirs.turn
    and ours.instruction_id = theirs.instruction_id
order by all
