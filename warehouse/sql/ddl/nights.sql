-- One row per night: an invocation of `nightly` or `run`.
create table nights (
    night_id varchar not null,
    started_at varchar not null,
    finished_at varchar not null,
    run_ids varchar[] not null,
    n_published bigint not null,
    n_withheld bigint not null,
    work struct(
        run_id varchar,
        title varchar,
        setting varchar,
        model varchar,
        status varchar,
        n_episodes bigint,
        n_reused bigint,
        reused_from struct(key varchar, value bigint)[],
        n_resumed bigint,
        n_turns_kept bigint,
        n_new bigint,
        model_calls bigint,
        input_tokens bigint,
        output_tokens bigint,
        n_unknown_tokens bigint,
        usd double,
        programs_run bigint,
        programs_reused bigint,
        compared_with varchar,
        why struct(field varchar, before varchar, after varchar, reruns varchar)[]
    )[] not null
)
