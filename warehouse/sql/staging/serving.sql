-- One row per replica x stretch of a night.
select
    night_id,
    model,
    served_name,
    replica,
    from_at,
    to_at,
    seconds,
    requests,
    prompt_tokens,
    output_tokens,
    prefix_cache_queries,
    prefix_cache_hits,
    preemptions,
    running,
    waiting,
    kv_cache_share,
    is_restarted
from incoming
