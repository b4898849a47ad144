-- One row per run x strategy (the instruction of a turn; `base` is the first), over all levels.
with
changed as (
    select runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version, runs.sandbox, runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'codeif'
),
pooled as (
    select
        scores.run_id,
        scores.instruction_id,
        scores.metric,
        stable_mean(scores.value) as mean,
        list(scores.value order by scores.problem_id) filter (where scores.value is not null) as scored_values,
        list(scores.problem_id order by scores.problem_id) filter (where scores.value is not null) as scored_problems,
        count(scores.value) as n,
        count(*) filter (where is_fault(scores.unscored_reason)) as n_unscored,
        count(*) filter (where scores.value is null and not is_fault(scores.unscored_reason)) as n_not_applicable
    from scores
    inner join changed
        on scores.run_id = changed.run_id
    where scores.turn > 0 and scores.instruction_id is not null
    group by scores.run_id, scores.instruction_id, scores.metric
),
measured as (
    select
        run_id,
        instruction_id,
        metric,
        mean,
        interval_low(scored_values, scored_problems) as low,
        interval_high(scored_values, scored_problems) as high,
        n,
        n_unscored,
        n_not_applicable
    from pooled
),
strategies as (
    select
        run_id,
        instruction_id,
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
    group by run_id, instruction_id
)
select
    strategies.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    changed.dataset_version,
    strategies.instruction_id,
    strategies.ia,
    strategies.ia_low,
    strategies.ia_high,
    strategies.n,
    strategies.n_unscored,
    strategies.ca_strict,
    strategies.ca_strict_low,
    strategies.ca_strict_high,
    strategies.ca_fraction,
    strategies.ca_fraction_low,
    strategies.ca_fraction_high,
    strategies.ifr,
    strategies.ifr_low,
    strategies.ifr_high,
    strategies.n_ca,
    strategies.n_ca_unscored,
    strategies.n_ifr,
    strategies.n_ifr_unscored,
    strategies.n_ifr_not_applicable,
    changed.sandbox,
    changed.isolated
from strategies
inner join changed
    on strategies.run_id = changed.run_id
