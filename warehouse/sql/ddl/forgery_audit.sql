-- One row per published run x episode x turn x instruction whose pass was audited: its tests run again with a decoy.
create table forgery_audit (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    episode_id varchar not null,
    problem_id varchar not null,
    sample bigint not null,
    turn bigint not null,
    instruction_id varchar not null,
    verdict_id varchar not null,
    decoy varchar not null,
    outcome varchar not null,
    is_sound boolean not null,
    detail varchar not null,
    n_decoys bigint not null,
    n_runs bigint not null,
    duration_s double not null
)
