-- One row per replica of a model that vLLM serves x stretch of a night in which it had work.
create table serving (
    night_id varchar not null,
    model varchar not null,
    served_name varchar not null,
    replica bigint not null,
    from_at varchar not null,
    to_at varchar not null,
    seconds double not null,
    requests bigint not null,
    prompt_tokens bigint not null,
    output_tokens bigint not null,
    prefix_cache_queries bigint not null,
    prefix_cache_hits bigint not null,
    preemptions bigint not null,
    running bigint not null,
    waiting bigint not null,
    kv_cache_share double,
    is_restarted boolean not null
)
