-- One row per run x episode x metric: the means of its turns pooled within the dialog.
with
turns_pooled as (
    select
        pool_turn.run_id,
        pool_turn.benchmark,
        pool_turn.model,
        pool_turn.episode_id,
        pool_turn.problem_id,
        pool_turn.sample,
        pool_turn.metric,
        pool_turn.mean,
        pool_turn.n,
        pool_turn.n_unscored,
        pool_turn.n_not_applicable,
        pool_turn.sandbox,
        pool_turn.isolated
    from pool_turn
    inner join changed_runs
        on pool_turn.run_id = changed_runs.run_id
)
select
    run_id,
    benchmark,
    model,
    episode_id,
    problem_id,
    sample,
    metric,
    stable_mean(mean) as mean,
    min(mean) as min,
    max(mean) as max,
    count(mean) as n_turns,
    sum(n)::bigint as n,
    sum(n_unscored)::bigint as n_unscored,
    sum(n_not_applicable)::bigint as n_not_applicable,
    sandbox,
    isolated
from turns_pooled
group by run_id, benchmark, model, episode_id, problem_id, sample, metric, sandbox, isolated
