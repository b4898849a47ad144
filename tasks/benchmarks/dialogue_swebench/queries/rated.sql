-- One row per dialogue x rubric x who rated it (a person, or the judge, whose name is empty), of published runs.
select
    runs.model || ' ' || runs.setting as system,
    scores.problem_id || '#' || scores.sample as task,
    scores.metric as rubric,
    '' as rater,
    scores.episode_id,
    scores.value
from scores
inner join runs
    on scores.run_id = runs.run_id
where runs.benchmark = 'dialogue_swebench'
    and (len($run_ids) = 0 or list_contains($run_ids, runs.run_id))
    and scores.metric in ('naturalness', 'coherence')
    and scores.value is not null
union all
select
    runs.model || ' ' || runs.setting as system,
    members.problem_id || '#' || members.sample as task,
    ratings.rubric,
    ratings.rater,
    ratings.episode_id,
    if(ratings.rubric = 'coherence' and max(ratings.dimension) <> '', 1 + sum(ratings.value), max(ratings.value)) as rating
from ratings
inner join run_episodes as members
    on ratings.episode_id = members.episode_id
inner join runs
    on members.run_id = runs.run_id
where runs.benchmark = 'dialogue_swebench'
    and (len($run_ids) = 0 or list_contains($run_ids, runs.run_id))
    and ratings.rubric in ('naturalness', 'coherence')
    and ratings.turn = 0
    and ratings.value is not null
group by runs.model, runs.setting, members.problem_id, members.sample, ratings.rubric, ratings.rater, ratings.episode_id
order by all
