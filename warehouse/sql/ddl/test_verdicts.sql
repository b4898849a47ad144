-- One row per published run x episode x turn x instruction whose tests were run on that turn's answer.
create table test_verdicts (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    episode_id varchar not null,
    problem_id varchar not null,
    sample bigint not null,
    turn bigint not null,
    instruction_id varchar not null,
    outcome varchar not null,
    detail varchar not null,
    duration_s double,
    verdict_id varchar,
    sandbox varchar not null
)
