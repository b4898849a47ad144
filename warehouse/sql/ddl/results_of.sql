-- One row per run x group x metric of a table of grouped scores (run_id, "level", axis, position, score), as in `results`.
create macro results_of(placed_scores) as table
with
pools as (
    select
        run_id,
        "level",
        axis,
        position,
        score.metric as metric,
        max(score.metric_version) as metric_version,
        pooled(score."value", score.problem_id, score.unscored_reason, true) as pool,
        count(distinct score.problem_id) filter (where score."value" is not null) as n_problems,
        count(distinct score.episode_id) as n_dialogs
    from query_table(placed_scores)
    group by run_id, "level", axis, position, score.metric
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
