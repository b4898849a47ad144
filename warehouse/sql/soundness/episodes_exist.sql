-- One row per judged run that lists episodes missing from the lake.
with
judged as (
    select run_id from judged_runs
),
contained as (
    select run_id, episode_id from run_episodes
),
stored as (
    select episode_id from episode_rows
)
select
    contained.run_id,
    'episodes_exist: names ' || count(*) || ' episodes that the lake does not hold, the first being ' || min(contained.episode_id)
    as fault
from contained
semi join judged on contained.run_id = judged.run_id
anti join stored on contained.episode_id = stored.episode_id
group by contained.run_id
order by contained.run_id
