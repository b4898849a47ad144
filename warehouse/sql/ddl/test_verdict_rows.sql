-- One row per published run x episode x turn x instruction tested on that turn's answer. Read the view `test_verdicts` instead.
create table test_verdict_rows (
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
    reason varchar,
    duration_s double,
    verdict_id varchar,
    sandbox varchar not null,
    n_cases bigint,
    n_passed bigint
)
