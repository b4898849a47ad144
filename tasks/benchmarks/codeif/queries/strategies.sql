-- One row per run x level x strategy: of the runs of two rounds in $run_ids, or of one run of each model, options and data: whole
-- ones before those of a part of the tasks, and the newest of these.
with
asked as (
    select
        run_id,
        model,
        dataset_version,
        coalesce(cast(json_extract(spec_json, '$.episode_options') as varchar), '[]') as options,
        coalesce(cast(json_extract(spec_json, '$.scoring_options') as varchar), '[]') as scoring_options,
        task_share,
        finished_at
    from runs
    where
        benchmark = 'codeif'
        and setting = 'codeif.two_round'
        and case
            when len($run_ids::varchar[]) = 0 then not starts_with(model, 'control:')
            else list_contains($run_ids::varchar[], run_id)
        end
),
chosen as (
    select run_id, options, scoring_options, task_share from asked
    qualify len($run_ids::varchar[]) > 0 or row_number() over (
        partition by model, dataset_version, options, scoring_options
        order by coalesce(task_share, 1) desc, finished_at desc, run_id
    ) = 1
)
select
    strategies.run_id,
    strategies.model,
    strategies.dataset_version,
    chosen.options,
    chosen.scoring_options,
    chosen.task_share,
    strategies.isolated,
    strategies.level,
    strategies.instruction_id,
    strategies.ia,
    strategies.ia_low,
    strategies.ia_high,
    strategies.n,
    strategies.n_unscored,
    strategies.n_not_applicable
from codeif_strategies as strategies
inner join chosen
    on strategies.run_id = chosen.run_id
order by all
