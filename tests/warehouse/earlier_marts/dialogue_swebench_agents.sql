-- One row per run x axis (all, difficulty) x value of that axis: the paper's Table 1, with n beside each mean.
with
changed as (
    select
        runs.run_id,
        runs.benchmark,
        runs.model,
        runs.setting,
        runs.dataset_version,
        runs.spec_json,
        runs.sandbox,
        runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'dialogue_swebench'
),
tasks as (
    select
        dialogs.dataset_version,
        dialogs.row_digest,
        max(list_filter(dialogs.labels, lambda label: label."key" = 'difficulty')[1]."value") as difficulty
    from dialogs
    where dialogs.benchmark = 'dialogue_swebench'
    group by dialogs.dataset_version, dialogs.row_digest
),
played as (
    select
        changed.run_id,
        episodes.episode_id,
        tasks.difficulty
    from changed
    inner join changed_episodes as episodes
        on changed.run_id = episodes.run_id
    inner join tasks
        on changed.dataset_version = tasks.dataset_version
        and episodes.row_digest = tasks.row_digest
),
measured as (
    select
        played.run_id,
        played.difficulty,
        played.episode_id,
        scores.problem_id,
        scores.metric,
        scores.value,
        scores.unscored_reason
    from played
    inner join scores
        on played.run_id = scores.run_id
        and played.episode_id = scores.episode_id
    where scores.turn = 0
),
grouped as (
    select
        run_id,
        difficulty,
        if(grouping(difficulty) = 0, 'difficulty', 'all') as axis,
        count(distinct episode_id) as n_dialogues,
        pooled(value, problem_id, unscored_reason, metric = 'resolved') as resolved,
        pooled(value, problem_id, unscored_reason, metric = 'dialogue_turns', is_share := false) as turns,
        pooled(value, problem_id, unscored_reason, metric = 'agent_steps', is_share := false) as steps,
        pooled(value, problem_id, unscored_reason, metric = 'information_seeking', is_share := false) as asks,
        pooled(value, problem_id, unscored_reason, metric = 'naturalness', is_share := false) as naturalness,
        pooled(value, problem_id, unscored_reason, metric = 'coherence', is_share := false) as coherence
    from measured
    group by grouping sets ((run_id), (run_id, difficulty))
)
select
    changed.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    changed.dataset_version,
    changed.spec_json ->> '$.episode_options' as episode_options,
    coalesce(list_filter(
        from_json(changed.spec_json -> '$.scoring_options', '[["varchar"]]'),
        lambda option: option[1] = 'sample'
    )[1][2], 'all') as "sample",
    grouped.axis,
    grouped.difficulty,
    grouped.n_dialogues,
    grouped.resolved.mean as resolved,
    grouped.resolved.low as resolved_low,
    grouped.resolved.high as resolved_high,
    grouped.resolved.n as n_resolved,
    grouped.resolved.n_unscored as n_resolved_unscored,
    grouped.turns.mean as turns,
    grouped.turns.n as n_turns,
    grouped.turns.n_unscored as n_turns_unscored,
    grouped.steps.mean as steps,
    grouped.steps.n as n_steps,
    grouped.steps.n_unscored as n_steps_unscored,
    grouped.asks.mean as asks,
    grouped.asks.n as n_asks,
    grouped.asks.n_unscored as n_asks_unscored,
    grouped.naturalness.mean as naturalness,
    grouped.naturalness.n as n_naturalness,
    grouped.naturalness.n_unscored as n_naturalness_unscored,
    grouped.coherence.mean as coherence,
    grouped.coherence.n as n_coherence,
    grouped.coherence.n_unscored as n_coherence_unscored,
    changed.sandbox,
    changed.isolated
from changed
inner join grouped
    on changed.run_id = grouped.run_id
