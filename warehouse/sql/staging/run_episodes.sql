-- One row per run x episode.
select
    run_id,
    benchmark,
    model,
    episode_id,
    problem_id,
    sample
from incoming
qualify row_number() over (partition by run_id, episode_id order by problem_id) = 1
