-- One row per judged run x fault: its episodes have another dataset version, setting, problem or sample than the run.
with
judged as (
    select r.run_id, r.dataset_version, r.setting
    from runs as r
    semi join judged_runs as j on r.run_id = j.run_id
),
contained as (
    select c.run_id, c.episode_id, c.problem_id, c.sample, judged.dataset_version, judged.setting
    from run_episodes as c
    inner join judged on c.run_id = judged.run_id
)
select
    contained.run_id,
    'run_of_episodes: ' || count(distinct contained.episode_id) || ' episodes are of another dataset version, setting, problem or'
    || ' sample than the run says, the first being ' || min(contained.episode_id) as fault
from contained
inner join episode_rows as stored on contained.episode_id = stored.episode_id
where
    stored.dataset_version <> contained.dataset_version
    or stored.benchmark || '.' || stored.setting <> contained.setting
    or stored.problem_id <> contained.problem_id
    or stored.sample <> contained.sample
group by contained.run_id
order by contained.run_id
