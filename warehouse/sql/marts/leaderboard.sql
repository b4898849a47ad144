-- One row per run x metric. `mean` and its 95% interval are flat over scored values, `dialog_mean` is turn -> dialog -> dataset.
-- Of a run that stopped early the decided metric has its sequence's interval of the whole data set's mean; others have none.
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
        runs.finished_at,
        runs.n_refused,
        runs.n_empty,
        runs.n_cut_off,
        runs.n_unreadable
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
    case when decided.run_id is null then flat.pooled.low else sequence.mean_low end as ci_low,
    case when decided.run_id is null then flat.pooled.high else sequence.mean_high end as ci_high,
    flat.pooled.n,
    flat.pooled.n_unscored,
    flat.pooled.n_not_applicable,
    changed.n_refused,
    changed.n_empty,
    changed.n_cut_off,
    changed.n_unreadable,
    dialogs_pooled.n_dialogs,
    flat.n_problems,
    changed.samples,
    changed.seed,
    changed.sandbox,
    changed.isolated,
    changed.released_because,
    changed.finished_at,
    forgery.share as forged_share,
    case when decided.run_id is null then 'bootstrap' when sequence.run_id is not null then 'sequence' end as interval_kind
from flat
inner join changed
    on flat.run_id = changed.run_id
inner join dialogs_pooled
    on flat.run_id = dialogs_pooled.run_id
    and flat.metric = dialogs_pooled.metric
left join forgery
    on flat.run_id = forgery.run_id
left join (select distinct run_id from stopped_runs) as decided
    on flat.run_id = decided.run_id
left join decisions as sequence
    on flat.run_id = sequence.run_id
    and flat.metric = sequence.metric
