-- One row per run x level x strategy: of the runs of two rounds in $run_ids, or of the newest of each model and data.
with
asked as (
    select run_id, model, dataset_version, finished_at from runs
    where
        benchmark = 'codeif'
        and setting = 'codeif.two_round'
        and case
            when len($run_ids::varchar[]) = 0 then not starts_with(model, 'control:')
            else list_contains($run_ids::varchar[], run_id)
        end
),
newest as (
    select run_id from asked
    qualify len($run_ids::varchar[]) > 0 or row_number() over (
        partition by model, dataset_version order by finished_at desc, run_id
    ) = 1
)
select
    strategies.run_id,
    strategies.model,
    strategies.dataset_version,
    strategies.isolated,
    strategies.level,
    strategies.instruction_id,
    strategies.ia,
    strategies.ia_low,
    strategies.ia_high,
    strategies.n,
    strategies.n_unscored
from codeif_strategies as strategies
inner join newest
    on strategies.run_id = newest.run_id
order by all
