-- One row per run x level x axis x position of the runs in $run_ids.
select
    turns.run_id,
    turns.model,
    turns.setting,
    turns.dataset_version,
    coalesce(cast(json_extract(runs.spec_json, '$.episode_options') as varchar), '[]') as options,
    coalesce(cast(json_extract(runs.spec_json, '$.scoring_options') as varchar), '[]') as scoring_options,
    runs.task_share,
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
inner join runs
    on turns.run_id = runs.run_id
where list_contains($run_ids::varchar[], turns.run_id)
order by turns.level, turns.model, turns.setting, options, scoring_options, turns.run_id, turns.axis, turns.turn
