-- One row per run x level x axis (turn, strategy_slot) x position on it; level 'all' only in runs of several levels.
with
changed as (
    select runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version, runs.sandbox, runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'codeif'
),
slots(instruction_id, strategy_slot) as (
    values
        ('base', 1),
        ('Input-Output Conditions', 2),
        ('Exception Handling', 3),
        ('Edge Case Handling', 4),
        ('Annotation Coverage', 5),
        ('Code Complexity', 6),
        ('Code Standard', 7),
        ('Functionality Extension', 8),
        ('Context Usage Verification', 9),
        ('Context Usage Correctness', 10)
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
        scores.problem_id,
        scores.turn,
        slots.strategy_slot,
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
    left join slots
        on scores.instruction_id = slots.instruction_id
    where scores.turn > 0
),
runs_of_several_levels as (
    select run_id from values_of_levels
    group by run_id
    having count(distinct level) > 1
),
values_and_all as (
    select run_id, problem_id, turn, strategy_slot, metric, value, unscored_reason, level from values_of_levels
    union all
    select run_id, problem_id, turn, strategy_slot, metric, value, unscored_reason, 'all' as level
    from values_of_levels
    semi join runs_of_several_levels using (run_id)
),
placed as (
    select run_id, level, 'turn' as axis, turn as position, problem_id, metric, value, unscored_reason
    from values_and_all
    union all
    select run_id, level, 'strategy_slot' as axis, strategy_slot as position, problem_id, metric, value, unscored_reason
    from values_and_all
    where strategy_slot is not null
),
pooled as (
    select
        run_id,
        level,
        axis,
        position,
        metric,
        stable_mean(value) as mean,
        list(value order by problem_id) filter (where value is not null) as scored_values,
        list(problem_id order by problem_id) filter (where value is not null) as scored_problems,
        count(value) as n,
        count(*) filter (where is_fault(unscored_reason)) as n_unscored,
        count(*) filter (where value is null and not is_fault(unscored_reason)) as n_not_applicable
    from placed
    group by run_id, level, axis, position, metric
),
measured as (
    select
        run_id,
        level,
        axis,
        position,
        metric,
        mean,
        interval_low(scored_values, scored_problems) as low,
        interval_high(scored_values, scored_problems) as high,
        n,
        n_unscored,
        n_not_applicable
    from pooled
),
positions as (
    select
        run_id,
        level,
        axis,
        position,
        max(mean) filter (where metric = 'instruction_accuracy') as ia,
        max(low) filter (where metric = 'instruction_accuracy') as ia_low,
        max(high) filter (where metric = 'instruction_accuracy') as ia_high,
        max(mean) filter (where metric = 'conversation_accuracy_strict') as ca_strict,
        max(low) filter (where metric = 'conversation_accuracy_strict') as ca_strict_low,
        max(high) filter (where metric = 'conversation_accuracy_strict') as ca_strict_high,
        max(mean) filter (where metric = 'conversation_accuracy_fraction') as ca_fraction,
        max(low) filter (where metric = 'conversation_accuracy_fraction') as ca_fraction_low,
        max(high) filter (where metric = 'conversation_accuracy_fraction') as ca_fraction_high,
        max(mean) filter (where metric = 'instruction_forgetting_ratio') as ifr,
        max(low) filter (where metric = 'instruction_forgetting_ratio') as ifr_low,
        max(high) filter (where metric = 'instruction_forgetting_ratio') as ifr_high,
        coalesce(max(n) filter (where metric = 'instruction_accuracy'), 0) as n,
        coalesce(max(n_unscored) filter (where metric = 'instruction_accuracy'), 0) as n_unscored,
        coalesce(max(n) filter (where metric = 'conversation_accuracy_strict'), 0) as n_ca,
        coalesce(max(n_unscored) filter (where metric = 'conversation_accuracy_strict'), 0) as n_ca_unscored,
        coalesce(max(n) filter (where metric = 'instruction_forgetting_ratio'), 0) as n_ifr,
        coalesce(max(n_unscored) filter (where metric = 'instruction_forgetting_ratio'), 0) as n_ifr_unscored,
        coalesce(max(n_not_applicable) filter (where metric = 'instruction_forgetting_ratio'), 0) as n_ifr_not_applicable
    from measured
    group by run_id, level, axis, position
)
select
    positions.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    changed.dataset_version,
    positions.level,
    positions.axis,
    positions.position::bigint as turn,
    positions.ia,
    positions.ia_low,
    positions.ia_high,
    positions.ca_strict,
    positions.ca_strict_low,
    positions.ca_strict_high,
    positions.ca_fraction,
    positions.ca_fraction_low,
    positions.ca_fraction_high,
    positions.ifr,
    positions.ifr_low,
    positions.ifr_high,
    positions.n,
    positions.n_unscored,
    positions.n_ca,
    positions.n_ca_unscored,
    positions.n_ifr,
    positions.n_ifr_unscored,
    positions.n_ifr_not_applicable,
    changed.sandbox,
    changed.isolated
from positions
inner join changed
    on positions.run_id = changed.run_id
