-- One row per run whose answers were tested: forged among audited passes, with the exact binomial 95% interval of their share.
-- `n_audited` excludes passes without a decoy. `share` is NULL without audited passes.
with
changed as (
    select runs.run_id, runs.benchmark, runs.setting, runs.model, runs.sandbox, runs.isolated
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
),
tested as (
    select
        rows_of_run.run_id,
        count(*) filter (where rows_of_run.outcome = 'passed' and rows_of_run.verdict_id is not null) as n_passed
    from test_verdict_rows as rows_of_run
    inner join changed
        on rows_of_run.run_id = changed.run_id
    group by rows_of_run.run_id
),
audited as (
    select
        forgery_audit.run_id,
        count(*) filter (where forgery_audit.outcome <> 'no_decoy') as n_audited,
        count(*) filter (where forgery_audit.outcome = 'forged') as n_forged,
        count(*) filter (where forgery_audit.outcome = 'suspected') as n_suspected
    from forgery_audit
    inner join changed
        on forgery_audit.run_id = changed.run_id
    group by forgery_audit.run_id
),
counted as (
    select
        changed.run_id,
        changed.benchmark,
        changed.setting,
        changed.model,
        tested.n_passed,
        coalesce(audited.n_audited, 0) as n_audited,
        coalesce(audited.n_forged, 0) as n_forged,
        coalesce(audited.n_suspected, 0) as n_suspected,
        changed.sandbox,
        changed.isolated
    from changed
    inner join tested
        on changed.run_id = tested.run_id
    left join audited
        on changed.run_id = audited.run_id
)
select
    run_id,
    benchmark,
    setting,
    model,
    n_passed,
    n_audited,
    n_forged,
    n_suspected,
    n_forged / nullif(n_audited, 0) as share,
    exact_low(n_forged, n_audited) as ci_low,
    exact_high(n_forged, n_audited) as ci_high,
    sandbox,
    isolated
from counted
