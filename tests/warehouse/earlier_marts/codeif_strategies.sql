-- One row per run x level x strategy (a turn's instruction; `base` is the first); level 'all' only in runs of several levels.
with
changed as (
    select runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version, runs.sandbox, runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'codeif'
),
episode_levels as (
    select episodes.run_id, episodes.episode_id, problems.level
    from changed_episodes as episodes
    inner join changed
        on episodes.run_id = changed.run_id
    inner join problems
        on episodes.benchmark = problems.benchmark
        and episodes.dataset_version = problems.dataset_version
        and episodes.problem_id = problems.problem_id
        and episodes.row_digest = problems.row_digest
),
values_of_levels as (
    select
        scores.run_id,
        scores.instruction_id,
        scores.problem_id,
        scores.metric,
        scores.value,
        scores.unscored_reason,
        coalesce(episode_levels.level, 'unknown') as level
    from scores
    inner join changed
        on scores.run_id = changed.run_id
    left join episode_levels
        on scores.run_id = episode_levels.run_id
        and scores.episode_id = episode_levels.episode_id
    where scores.turn > 0 and scores.instruction_id is not null
),
runs_of_several_levels as (
    select run_id from values_of_levels
    group by run_id
    having count(distinct level) > 1
),
measured as (
    select run_id, level, instruction_id, problem_id, metric, value, unscored_reason from values_of_levels
    union all
    select run_id, 'all' as level, instruction_id, problem_id, metric, value, unscored_reason from values_of_levels
    semi join runs_of_several_levels using (run_id)
),
strategies as (
    select
        run_id,
        level,
        instruction_id,
        pooled(value, problem_id, unscored_reason, metric = 'instruction_accuracy') as ia,
        pooled(value, problem_id, unscored_reason, metric = 'conversation_accuracy_strict') as ca_strict,
        pooled(value, problem_id, unscored_reason, metric = 'conversation_accuracy_fraction') as ca_fraction,
        pooled(value, problem_id, unscored_reason, metric = 'instruction_forgetting_ratio') as ifr
    from measured
    group by run_id, level, instruction_id
)
select
    strategies.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    changed.dataset_version,
    strategies.level,
    strategies.instruction_id,
    strategies.ia.mean as ia,
    strategies.ia.low as ia_low,
    strategies.ia.high as ia_high,
    strategies.ia.n,
    strategies.ia.n_unscored,
    strategies.ia.n_not_applicable,
    strategies.ca_strict.mean as ca_strict,
    strategies.ca_strict.low as ca_strict_low,
    strategies.ca_strict.high as ca_strict_high,
    strategies.ca_fraction.mean as ca_fraction,
    strategies.ca_fraction.low as ca_fraction_low,
    strategies.ca_fraction.high as ca_fraction_high,
    strategies.ifr.mean as ifr,
    strategies.ifr.low as ifr_low,
    strategies.ifr.high as ifr_high,
    strategies.ca_strict.n as n_ca,
    strategies.ca_strict.n_unscored as n_ca_unscored,
    strategies.ca_strict.n_not_applicable as n_ca_not_applicable,
    strategies.ifr.n as n_ifr,
    strategies.ifr.n_unscored as n_ifr_unscored,
    strategies.ifr.n_not_applicable as n_ifr_not_applicable,
    changed.sandbox,
    changed.isolated
from strategies
inner join changed
    on strategies.run_id = changed.run_id
