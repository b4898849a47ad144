-- One row per run x level x strategy of two-round runs. Without $run_ids: one run for each model, options and data, namely the
-- run with the largest share of the tasks, then the newest.
with
candidates as (
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
    select run_id, options, scoring_options, task_share from candidates
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
