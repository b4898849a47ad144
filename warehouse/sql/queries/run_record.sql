-- One row: the run $run_id.
select
    run_id,
    night_id,
    benchmark,
    model,
    setting,
    dataset_version,
    revision,
    spec_json,
    sandbox,
    isolated,
    samples,
    seed,
    status,
    withheld_reason,
    started_at,
    finished_at,
    n_episodes,
    n_owed,
    n_infra,
    n_unscored,
    n_truncated,
    model_calls,
    docs_path,
    parley_version
from runs
where run_id = $run_id
