-- One row per run x metric, newest runs first.
select
    setting,
    dataset_version,
    model,
    metric,
    mean,
    ci_low,
    ci_high,
    n,
    n_unscored,
    task_share,
    forged_share,
    finished_at,
    run_id
from leaderboard
order by finished_at desc, setting, model, run_id, metric
