-- One row per message of the episode $episode_id, in order.
select distinct
    position,
    turn,
    role,
    content,
    input_tokens,
    output_tokens,
    latency_s,
    finish_reason,
    served_model,
    n_calls
from turns
where episode_id = $episode_id
order by position
