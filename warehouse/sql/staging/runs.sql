-- One row per run: the latest record.
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
    state_digest,
    parley_version
from incoming
qualify row_number() over (partition by run_id order by finished_at desc, started_at desc) = 1
