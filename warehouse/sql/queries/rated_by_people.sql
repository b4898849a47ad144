-- One row per rating of a person.
select
    rubric,
    dimension,
    rater as who,
    episode_id,
    turn,
    "value",
    label
from ratings
order by all
