-- One row per run x metric. `mean` and its 95% interval are flat over scored values, `dialog_mean` is turn -> dialog -> dataset.
with
changed as (
    select
        runs.run_id,
        runs.night_id,
        runs.setting,
        runs.dataset_version,
        runs.revision,
        runs.samples,
        runs.seed,
        runs.sandbox,
        runs.isolated,
        runs.released_because,
        runs.finished_at
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
),
flat as (
    select
        scores.run_id,
        scores.benchmark,
        scores.model,
        scores.metric,
        max(scores.metric_version) as metric_version,
        pooled(scores.value, scores.problem_id, scores.unscored_reason, true) as pooled,
        count(distinct scores.problem_id) filter (where scores.value is not null) as n_problems
    from scores
    inner join changed
        on scores.run_id = changed.run_id
    group by scores.run_id, scores.benchmark, scores.model, scores.metric
),
dialogs_pooled as (
    select pool_dataset.run_id, pool_dataset.metric, pool_dataset.mean, pool_dataset.n_dialogs
    from pool_dataset
    inner join changed
        on pool_dataset.run_id = changed.run_id
    where pool_dataset.dialog_pool = 'mean'
)
select
    flat.run_id,
    changed.night_id,
    flat.benchmark,
    changed.setting,
    flat.model,
    changed.revision,
    changed.dataset_version,
    flat.metric,
    flat.metric_version,
    flat.pooled.mean,
    dialogs_pooled.mean as dialog_mean,
    flat.pooled.low as ci_low,
    flat.pooled.high as ci_high,
    flat.pooled.n,
    flat.pooled.n_unscored,
    flat.pooled.n_not_applicable,
    dialogs_pooled.n_dialogs,
    flat.n_problems,
    changed.samples,
    changed.seed,
    changed.sandbox,
    changed.isolated,
    changed.released_because,
    changed.finished_at,
    forgery.share as forged_share
from flat
inner join changed
    on flat.run_id = changed.run_id
inner join dialogs_pooled
    on flat.run_id = dialogs_pooled.run_id
    and flat.metric = dialogs_pooled.metric
left join forgery
    on flat.run_id = forgery.run_id
