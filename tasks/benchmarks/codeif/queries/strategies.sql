-- One row per run x level x strategy of the two-round runs in $run_ids.
select
    strategies.run_id,
    strategies.model,
    strategies.dataset_version,
    coalesce(cast(json_extract(runs.spec_json, '$.episode_options') as varchar), '[]') as options,
    coalesce(cast(json_extract(runs.spec_json, '$.scoring_options') as varchar), '[]') as scoring_options,
    runs.task_share,
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
inner join runs
    on strategies.run_id = runs.run_id
where list_contains($run_ids::varchar[], strategies.run_id)
order by all
