-- One row per run, dataset and way of pooling, for $run_ids or all runs; each model's largest, then newest run comes first.
select
    pooled.dataset,
    pooled.dataset_version,
    pooled.turn_stat,
    pooled.dialog_stat,
    pooled.dataset_level,
    pooled.model,
    pooled.mean,
    runs.spec_json,
    coalesce(runs.task_share, 1.0) as task_share
from unidial_pooled as pooled
inner join runs
    on pooled.run_id = runs.run_id
where
    pooled.grouping = 'global'
    and pooled.mean is not null
    and case
        when len($run_ids::varchar[]) = 0 then not starts_with(runs.model, 'control:')
        else list_contains($run_ids::varchar[], runs.run_id)
    end
order by
    pooled.dataset, pooled.dataset_version, pooled.turn_stat, pooled.dialog_stat, pooled.dataset_level, pooled.model,
    task_share desc, runs.finished_at desc, runs.run_id
