-- One row per episode whose id starts with $episode_id, under the latest run that contains it.
select
    episodes.episode_id,
    episodes.run_id,
    episodes.benchmark,
    episodes.model,
    episodes.setting,
    episodes.problem_id,
    episodes.sample,
    episodes.attempt,
    episodes.stop_reason,
    episodes.error
from episodes
inner join runs
    on episodes.run_id = runs.run_id
where starts_with(episodes.episode_id, $episode_id)
qualify row_number() over (partition by episodes.episode_id order by runs.finished_at desc, runs.run_id) = 1
order by episodes.problem_id, episodes.sample, episodes.episode_id
