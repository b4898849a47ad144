-- One row per attempt at an episode, under the run that paid for it. Query the view `episodes` instead.
create table episode_rows (
    run_id varchar not null,
    part varchar not null,
    benchmark varchar not null,
    model varchar not null,
    episode_id varchar not null,
    attempt bigint not null,
    setting varchar not null,
    dataset_version varchar not null,
    problem_id varchar not null,
    dialog_id varchar not null,
    row_digest varchar not null,
    sample bigint not null,
    seed bigint not null,
    stop_reason varchar not null,
    error varchar,
    started_at varchar not null,
    finished_at varchar not null
)
