-- One row per run, the latest first.
select
    run_id,
    benchmark,
    setting,
    model,
    dataset_version,
    revision,
    samples,
    status,
    withheld_reason,
    n_episodes,
    n_owed,
    n_infra,
    n_unscored,
    n_truncated,
    sandbox,
    isolated,
    started_at,
    finished_at
from runs
order by finished_at desc, run_id
