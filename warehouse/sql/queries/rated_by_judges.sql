-- One row per judge x episode x turn x rubric x dimension that a person has rated, from the latest published run with it.
select
    judged.rubric,
    judged.dimension,
    judged.judge as who,
    judged.episode_id,
    judged.turn,
    judged.value,
    judged.label
from judge_verdicts as judged
inner join runs
    on judged.run_id = runs.run_id
semi join ratings
    on judged.episode_id = ratings.episode_id
    and judged.turn = ratings.turn
    and judged.rubric = ratings.rubric
    and judged.dimension = ratings.dimension
where judged.value is not null or judged.label is not null
qualify row_number() over (
    partition by judged.episode_id, judged.turn, judged.rubric, judged.dimension, judged.judge
    order by runs.finished_at desc, runs.run_id
) = 1
order by all
