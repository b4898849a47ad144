-- One row per rater x episode x turn x rubric x dimension.
select
    rater,
    benchmark,
    episode_id,
    turn,
    rubric,
    dimension,
    "value",
    label
from incoming
