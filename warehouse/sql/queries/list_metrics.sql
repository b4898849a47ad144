-- One row per benchmark x metric that a published run has scores of.
select
    benchmark,
    metric,
    max(metric_version) as metric_version,
    count(distinct run_id) as n_runs,
    sum(n)::bigint as n,
    sum(n_unscored)::bigint as n_unscored
from leaderboard
group by benchmark, metric
order by benchmark, metric
