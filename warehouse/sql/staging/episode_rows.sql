-- One row per attempt at an episode.
select
    run_id,
    part,
    benchmark,
    model,
    episode_id,
    attempt,
    setting,
    dataset_version,
    problem_id,
    dialog_id,
    row_digest,
    sample,
    seed,
    stop_reason,
    error,
    started_at,
    finished_at
from incoming
