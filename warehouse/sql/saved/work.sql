-- One row per night x run: reused and paid work, newest first.
select
    night_id,
    setting,
    model,
    status,
    n_episodes,
    n_reused,
    n_resumed,
    n_new,
    model_calls,
    input_tokens,
    output_tokens,
    n_unknown_tokens,
    usd,
    usd_hourly
from night_work
order by night_id desc, setting, model
