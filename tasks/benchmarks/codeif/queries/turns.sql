-- One row per run x level x axis x position: of the runs in $run_ids, or of the newest of each model, setting and data.
with
asked as (
    select run_id, model, setting, dataset_version, spec_json, finished_at from runs
    where
        benchmark = 'codeif'
        and case
            when len($run_ids::varchar[]) = 0 then not starts_with(model, 'control:')
            else list_contains($run_ids::varchar[], run_id)
        end
),
newest as (
    select run_id, coalesce(cast(json_extract(spec_json, '$.episode_options') as varchar), '[]') as options from asked
    qualify len($run_ids::varchar[]) > 0 or row_number() over (
        partition by model, setting, dataset_version, json_extract(spec_json, '$.episode_options')
        order by finished_at desc, run_id
    ) = 1
)
select
    turns.run_id,
    turns.model,
    turns.setting,
    turns.dataset_version,
    newest.options,
    turns.isolated,
    turns.level,
    turns.axis,
    turns.turn,
    turns.ia,
    turns.n,
    turns.n_unscored,
    turns.ca_strict,
    turns.ca_fraction,
    turns.n_ca,
    turns.n_ca_unscored,
    turns.ifr,
    turns.n_ifr,
    turns.n_ifr_unscored,
    turns.ife,
    turns.n_ife,
    turns.n_ife_unscored
from codeif_turns as turns
inner join newest
    on turns.run_id = newest.run_id
order by turns.level, turns.model, turns.setting, newest.options, turns.run_id, turns.axis, turns.turn
