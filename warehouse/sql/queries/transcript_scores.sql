-- One row per turn x metric of the episode $episode_id as the run $run_id scored it.
select
    turn,
    instruction_id,
    metric,
    value,
    unscored_reason
from scores
where episode_id = $episode_id and run_id = $run_id
order by turn, metric
