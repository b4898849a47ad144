-- One row per run with or without an agent and way of pooling, newest run first, for $run_ids or all runs but controls.
select
    agents.dataset,
    agents.dataset_version,
    agents.turn_stat,
    agents.dialog_stat,
    agents.dataset_level,
    agents.base_model,
    agents.agent,
    to_json([
        json_extract_string(runs.spec_json, '$.agent.version'),
        json_extract_string(runs.spec_json, '$.agent.options'),
        json_extract_string(runs.spec_json, '$.embedder_in_play.name'),
        json_extract_string(runs.spec_json, '$.embedder_in_play.revision')
    ])::varchar as variant,
    agents.mean,
    runs.spec_json,
    runs.task_share,
    runs.subsample_seed
from unidial_agents as agents
inner join runs
    on agents.run_id = runs.run_id
where
    case
        when len($run_ids::varchar[]) = 0 then not starts_with(agents.base_model, 'control:')
        else list_contains($run_ids::varchar[], agents.run_id)
    end
order by
    agents.dataset, agents.dataset_version, agents.turn_stat, agents.dialog_stat, agents.dataset_level, agents.base_model,
    runs.finished_at desc, runs.run_id
