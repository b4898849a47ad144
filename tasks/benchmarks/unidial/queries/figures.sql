-- One row per model, dataset and way of pooling: of the runs in $run_ids, or of all, the newest of those with the most tasks.
with
asked as (
    select run_id, model, setting, dataset_version, finished_at, coalesce(task_share, 1.0) as task_share from runs
    where
        benchmark = 'unidial'
        and case
            when len($run_ids::varchar[]) = 0 then not starts_with(model, 'control:')
            else list_contains($run_ids::varchar[], run_id)
        end
),
newest as (
    select run_id from asked
    qualify row_number() over (
        partition by model, setting, dataset_version order by task_share desc, finished_at desc, run_id
    ) = 1
)
select
    pooled.dataset,
    pooled.dataset_version,
    pooled.turn_stat,
    pooled.dialog_stat,
    pooled.dataset_level,
    pooled.model,
    pooled.mean
from unidial_pooled as pooled
inner join newest
    on pooled.run_id = newest.run_id
where pooled."by" = 'global' and pooled.mean is not null
order by all
