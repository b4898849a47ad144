-- One row per published run: its family and first night, and the rule of its comparisons.
with
of_nights as (
    select unnest(run_ids) as run_id, started_at from nights
),
seen as (
    select run_id, min(started_at) as started_at from of_nights group by run_id
)
select
    runs.run_id,
    runs.night_id,
    runs.benchmark,
    runs.setting,
    runs.dataset_version,
    runs.model,
    runs.revision,
    runs.spec_json,
    runs.sandbox,
    runs.isolated,
    runs.task_share,
    runs.subsample_seed,
    runs.finished_at,
    least(runs.started_at, coalesce(seen.started_at, runs.started_at)) as first_seen,
    coalesce(rules.family, runs.model) as family,
    rules.baseline,
    rules.threshold,
    rules.thresholds
from runs
left join seen
    on runs.run_id = seen.run_id
left join comparison_rules as rules
    on runs.run_id = rules.run_id
where runs.status = 'finished'
order by runs.run_id
