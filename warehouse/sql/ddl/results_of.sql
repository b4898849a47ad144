-- One row per run x group x metric of a table of grouped scores (run_id, "level", axis, position, score), as in `results`.
create macro results_of(placed_scores) as table
with
pools as (
    select
        placed.run_id,
        placed."level",
        placed.axis,
        placed.position,
        placed.score.metric as metric,
        max(placed.score.metric_version) as metric_version,
        pooled(
            placed.score."value",
            placed.score.problem_id,
            placed.score.unscored_reason,
            true,
            is_share := any_value(scales.metric is null)
        ) as pool,
        count(distinct placed.score.problem_id) filter (where placed.score."value" is not null) as n_problems,
        count(distinct placed.score.episode_id) as n_dialogs
    from query_table(placed_scores) as placed
    left join _scales as scales
        on placed.score.metric = scales.metric
    group by placed.run_id, placed."level", placed.axis, placed.position, placed.score.metric
)
select
    pools.run_id,
    runs.benchmark,
    runs.setting,
    runs.model,
    runs.dataset_version,
    runs.spec_json ->> '$.episode_options' as episode_options,
    runs.spec_json ->> '$.scoring_options' as scoring_options,
    runs.sandbox,
    runs.isolated,
    runs.task_share,
    pools."level",
    pools.axis,
    pools.position,
    pools.metric,
    pools.metric_version,
    pools.pool.mean as mean,
    pools.pool.low as ci_low,
    pools.pool.high as ci_high,
    pools.pool.n as n,
    pools.pool.n_unscored as n_unscored,
    pools.pool.n_not_applicable as n_not_applicable,
    runs.n_refused,
    runs.n_cut_off,
    runs.n_unreadable,
    pools.n_problems,
    pools.n_dialogs,
    forgery.share as forged_share
from pools
inner join runs
    on pools.run_id = runs.run_id
left join forgery
    on pools.run_id = forgery.run_id
