-- One row per run x metric. `mean` and its interval are over all scores; `dialog_mean` pools by turn, dialog, dataset.
-- In a run that stopped early, the decided metric has the confidence sequence of the data set's mean. Others have no interval.
with
decided as (
    select distinct run_id from stopped_runs
)
select
    results.run_id,
    runs.night_id,
    results.benchmark,
    results.setting,
    results.model,
    runs.revision,
    results.dataset_version,
    results.metric,
    results.metric_version,
    results.mean,
    pool_dataset.mean as dialog_mean,
    case when decided.run_id is null then results.ci_low else sequence.mean_low end as ci_low,
    case when decided.run_id is null then results.ci_high else sequence.mean_high end as ci_high,
    results.n,
    results.n_unscored,
    results.n_not_applicable,
    runs.n_refused,
    runs.n_empty,
    runs.n_cut_off,
    runs.n_unreadable,
    pool_dataset.n_dialogs,
    results.n_problems,
    runs.samples,
    runs.seed,
    runs.sandbox,
    runs.isolated,
    runs.released_because,
    runs.finished_at,
    results.forged_share,
    case when decided.run_id is null then 'bootstrap' when sequence.run_id is not null then 'sequence' end as interval_kind
from results
inner join changed_runs
    on results.run_id = changed_runs.run_id
inner join runs
    on results.run_id = runs.run_id
inner join pool_dataset
    on results.run_id = pool_dataset.run_id
    and results.metric = pool_dataset.metric
    and pool_dataset.dialog_pool = 'mean'
left join decided
    on results.run_id = decided.run_id
left join decisions as sequence
    on results.run_id = sequence.run_id
    and results.metric = sequence.metric
where results.axis = 'all'
