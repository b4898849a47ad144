-- One row per published run x episode x turn x instruction x metric (turn 0: the whole episode). Read the view `scores` instead.
create table score_rows (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    episode_id varchar not null,
    problem_id varchar not null,
    sample bigint not null,
    turn bigint not null,
    instruction_id varchar,
    metric varchar not null,
    metric_version bigint not null,
    "value" double,
    unscored_reason varchar
)
