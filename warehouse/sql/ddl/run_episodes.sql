-- One row per published run x episode that it contains.
create table run_episodes (
    run_id varchar not null,
    benchmark varchar not null,
    model varchar not null,
    episode_id varchar not null,
    problem_id varchar not null,
    sample bigint not null
)
