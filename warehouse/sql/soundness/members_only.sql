-- One row per judged run x table with rows of episodes that the run does not contain, or contains for another problem.
with
judged as (
    select run_id from judged_runs
),
contained as (
    select run_id, episode_id, problem_id, sample from run_episodes
    where run_id in (select run_id from judged)
),
results as (
    select 'scores' as table_name, run_id, episode_id, problem_id, sample from score_rows
    where run_id in (select run_id from judged)
    union all
    select 'test_verdicts' as table_name, run_id, episode_id, problem_id, sample from test_verdict_rows
    where run_id in (select run_id from judged)
    union all
    select 'forgery_audit' as table_name, run_id, episode_id, problem_id, sample from forgery_audit
    where run_id in (select run_id from judged)
)
select
    results.run_id,
    'members_only: ' || results.table_name || ' hold ' || count(*)
    || ' rows of episodes that the run does not contain so, the first being ' || min(results.episode_id) as fault
from results
anti join contained
    on results.run_id = contained.run_id
    and results.episode_id = contained.episode_id
    and results.problem_id = contained.problem_id
    and results.sample = contained.sample
group by results.run_id, results.table_name
order by results.run_id, results.table_name
