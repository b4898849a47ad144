-- One row per run x way of pooling (statistics, level) x group (all, metric, label); n_unscored counts its missing scores.

-- A table of its own, not a view over `results`: it has minima and maxima, which `results` lacks. Each of its values is
-- pooled within a turn and a dialogue first, and `n_unscored` counts the scores below those values, not the values.
with
changed as (
    select runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version, runs.sandbox, runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'unidial'
),
stats(stat) as (
    values ('mean'), ('min'), ('max')
),
measured as (
    select
        scores.run_id,
        scores.episode_id,
        scores.turn,
        regexp_replace(coalesce(scores.instruction_id, scores.metric), '#[0-9]+$', '') as metric,
        scores.metric = 'instruction_following_loose' as is_second_reading,
        scores.value
    from scores
    inner join changed
        on scores.run_id = changed.run_id
),
turns_pooled as (
    select
        run_id,
        episode_id,
        turn,
        stable_mean(value) as mean,
        min(value) as min,
        max(value) as max,
        count(*) filter (where value is null) as n_unscored
    from measured
    where not is_second_reading
    group by run_id, episode_id, turn
),
turn_values as (
    select
        turns_pooled.run_id,
        turns_pooled.episode_id,
        turns_pooled.turn,
        stats.stat as turn_stat,
        case stats.stat when 'mean' then turns_pooled.mean when 'min' then turns_pooled.min else turns_pooled.max end as value,
        turns_pooled.n_unscored
    from turns_pooled
    cross join stats
),
dialogs_pooled as (
    select
        run_id,
        episode_id,
        turn_stat,
        stable_mean(value) as mean,
        min(value) as min,
        max(value) as max,
        sum(n_unscored)::bigint as n_unscored
    from turn_values
    group by run_id, episode_id, turn_stat
),
dialog_values as (
    select
        pooled.run_id,
        pooled.episode_id,
        pooled.turn_stat,
        stats.stat as dialog_stat,
        case stats.stat when 'mean' then pooled.mean when 'min' then pooled.min else pooled.max end as value,
        pooled.n_unscored
    from dialogs_pooled as pooled
    cross join stats
),
played as (
    select distinct episodes.run_id, episodes.episode_id, dialogs.labels, dialogs.turns
    from changed_episodes as episodes
    inner join changed
        on episodes.run_id = changed.run_id
    inner join dialogs
        on changed.benchmark = dialogs.benchmark
        and changed.dataset_version = dialogs.dataset_version
        and episodes.dialog_id = dialogs.dialog_id
        and episodes.row_digest = dialogs.row_digest
),
dialog_labels as (
    select run_id, episode_id, unnest(labels) as label from played
),
own_dialog_labels as (
    select run_id, episode_id, label."key" as name, label."value" as text
    from dialog_labels
    where not starts_with(label."key", '_')
),
hierarchies as (
    select kinds.run_id, kinds.episode_id, kinds.text || ' > ' || subtypes.text as text
    from own_dialog_labels as kinds
    inner join own_dialog_labels as subtypes
        on kinds.run_id = subtypes.run_id
        and kinds.episode_id = subtypes.episode_id
        and subtypes.name = 'task_subtype'
    where kinds.name = 'task_type'
),
dialog_turns as (
    select run_id, episode_id, unnest(turns) as said from played
),
turn_labels as (
    select run_id, episode_id, said.turn as turn, unnest(said.labels) as label
    from dialog_turns
    where said."role" = 'assistant'
),
own_turn_labels as (
    select run_id, episode_id, turn, label."key" as name, label."value" as text
    from turn_labels
    where not starts_with(label."key", '_') and not starts_with(label."key", 'raw')
),
grouped as (
    select run_id, turn_stat, dialog_stat, 'dialog' as dataset_level, 'global' as grouping, null as label, value, n_unscored
    from dialog_values
    union all
    select turns.run_id, turns.turn_stat, stats.stat, 'turn', 'global', null, turns.value, turns.n_unscored
    from turn_values as turns
    cross join stats
    union all
    select run_id, null, null, null, 'metric', metric, value, (value is null)::bigint
    from measured
    union all
    select pooled.run_id, pooled.turn_stat, pooled.dialog_stat, null, 'dialog_label', labels.name || ':' || labels.text,
        pooled.value, pooled.n_unscored
    from dialog_values as pooled
    inner join own_dialog_labels as labels
        on pooled.run_id = labels.run_id
        and pooled.episode_id = labels.episode_id
    union all
    select pooled.run_id, pooled.turn_stat, pooled.dialog_stat, null, 'hierarchy', labels.text, pooled.value, pooled.n_unscored
    from dialog_values as pooled
    inner join hierarchies as labels
        on pooled.run_id = labels.run_id
        and pooled.episode_id = labels.episode_id
    union all
    select turns.run_id, turns.turn_stat, null, null, 'turn_label', labels.name || ':' || labels.text,
        turns.value, turns.n_unscored
    from turn_values as turns
    inner join own_turn_labels as labels
        on turns.run_id = labels.run_id
        and turns.episode_id = labels.episode_id
        and turns.turn = labels.turn
)
select
    grouped.run_id,
    changed.benchmark,
    changed.model,
    split_part(changed.setting, '.', 2) as dataset,
    changed.setting,
    changed.dataset_version,
    grouped.turn_stat,
    grouped.dialog_stat,
    grouped.dataset_level,
    grouped.grouping,
    grouped.grouping as "by",
    grouped.label,
    count(grouped.value) as count,
    stable_mean(grouped.value) as mean,
    min(grouped.value) as min,
    max(grouped.value) as max,
    sum(grouped.n_unscored)::bigint as n_unscored,
    changed.sandbox,
    changed.isolated
from grouped
inner join changed
    on grouped.run_id = changed.run_id
group by all
