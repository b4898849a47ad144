-- One row per run x level x axis x position. Without $run_ids: one run for each model, setting, options and data, namely the run
-- with the largest share of the tasks, then the newest.
with
candidates as (
    select
        run_id,
        model,
        setting,
        dataset_version,
        coalesce(cast(json_extract(spec_json, '$.episode_options') as varchar), '[]') as options,
        coalesce(cast(json_extract(spec_json, '$.scoring_options') as varchar), '[]') as scoring_options,
        task_share,
        finished_at
    from runs
    where
        benchmark = 'codeif'
        and case
            when len($run_ids::varchar[]) = 0 then not starts_with(model, 'control:')
            else list_contains($run_ids::varchar[], run_id)
        end
),
chosen as (
    select run_id, options, scoring_options, task_share from candidates
    qualify len($run_ids::varchar[]) > 0 or row_number() over (
        partition by model, setting, dataset_version, options, scoring_options
        order by coalesce(task_share, 1) desc, finished_at desc, run_id
    ) = 1
)
select
    turns.run_id,
    turns.model,
    turns.setting,
    turns.dataset_version,
    chosen.options,
    chosen.scoring_options,
    chosen.task_share,
    turns.isolated,
    turns.level,
    turns.axis,
    turns.turn,
    turns.ia,
    turns.n,
    turns.n_unscored,
    turns.n_not_applicable,
    turns.ca_strict,
    turns.ca_fraction,
    turns.n_ca,
    turns.n_ca_unscored,
    turns.n_ca_not_applicable,
    turns.ifr,
    turns.n_ifr,
    turns.n_ifr_unscored,
    turns.n_ifr_not_applicable,
    turns.ife,
    turns.n_ife,
    turns.n_ife_unscored,
    turns.n_ife_not_applicable
from codeif_turns as turns
inner join chosen
    on turns.run_id = chosen.run_id
order by turns.level, turns.model, turns.setting, chosen.options, chosen.scoring_options, turns.run_id, turns.axis, turns.turn
