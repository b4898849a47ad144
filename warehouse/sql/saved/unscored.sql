-- One row per run x metric x reason of missing scores.
select
    model,
    metric,
    unscored_reason,
    count(*) as n,
    count(distinct episode_id) as n_episodes,
    run_id
from scores
where value is null
group by run_id, model, metric, unscored_reason
order by n desc, model, run_id, metric, unscored_reason
