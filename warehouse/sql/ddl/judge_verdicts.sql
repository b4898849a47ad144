-- One row per published run x episode x turn x rubric x judge (turn 0: the whole episode).
create table judge_verdicts (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    episode_id varchar not null,
    problem_id varchar not null,
    sample bigint not null,
    turn bigint not null,
    rubric varchar not null,
    judge varchar not null,
    judgement_id varchar not null,
    "value" double,
    unscored_reason varchar,
    raw varchar not null,
    input_tokens bigint,
    output_tokens bigint
)
