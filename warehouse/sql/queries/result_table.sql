-- One row per run x metric of the runs in $run_ids, in their order.
select
    leaderboard.model,
    leaderboard.revision,
    leaderboard.benchmark,
    leaderboard.setting,
    leaderboard.dataset_version,
    leaderboard.metric,
    leaderboard.mean,
    leaderboard.ci_low,
    leaderboard.ci_high,
    leaderboard.interval_kind,
    leaderboard.dialog_mean,
    leaderboard.n,
    leaderboard.n_unscored,
    leaderboard.n_not_applicable,
    leaderboard.n_dialogs,
    leaderboard.samples,
    leaderboard.sandbox,
    leaderboard.isolated,
    leaderboard.task_share,
    leaderboard.released_because,
    leaderboard.run_id
from leaderboard
where list_contains($run_ids::varchar[], leaderboard.run_id)
order by list_position($run_ids::varchar[], leaderboard.run_id), leaderboard.metric
