-- One row per run x strategy (the instruction of a turn; `base` is the first), over all levels.
with
changed as (
    select runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
    where runs.benchmark = 'codeif'
),
pooled as (
    select
        scores.run_id,
        scores.instruction_id,
        stable_mean(scores.value) as ia,
        list(scores.value order by scores.problem_id) filter (where scores.value is not null) as scored_values,
        list(scores.problem_id order by scores.problem_id) filter (where scores.value is not null) as scored_problems,
        count(scores.value) as n,
        count(*) filter (where is_fault(scores.unscored_reason)) as n_unscored
    from scores
    inner join changed
        on scores.run_id = changed.run_id
    where scores.metric = 'instruction_accuracy' and scores.instruction_id is not null
    group by scores.run_id, scores.instruction_id
)
select
    pooled.run_id,
    changed.benchmark,
    changed.model,
    changed.setting,
    changed.dataset_version,
    pooled.instruction_id,
    pooled.ia,
    interval_low(pooled.scored_values, pooled.scored_problems) as ia_low,
    interval_high(pooled.scored_values, pooled.scored_problems) as ia_high,
    pooled.n,
    pooled.n_unscored
from pooled
inner join changed
    on pooled.run_id = changed.run_id
