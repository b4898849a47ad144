-- One row per dataset, way of pooling, model, conditions and agent: figure of the newest run in $run_ids, or of all but controls.
with
asked as (
    select
        runs.run_id,
        runs.finished_at,
        agents.base_model,
        agents.agent,
        agents.setting,
        agents.dataset_version,
        coalesce(runs.task_share, 1.0) as task_share,
        runs.subsample_seed,
        json_merge_patch(
            runs.spec_json::json, '{"agent": null, "embedder": null, "embedder_in_play": null}'::json
        )::varchar as others,
        to_json([
            json_extract_string(runs.spec_json, '$.agent.version'),
            json_extract_string(runs.spec_json, '$.agent.options'),
            json_extract_string(runs.spec_json, '$.embedder_in_play.name'),
            json_extract_string(runs.spec_json, '$.embedder_in_play.revision')
        ])::varchar as variant
    from (select distinct run_id, base_model, agent, setting, dataset_version from unidial_agents) as agents
    inner join runs
        on agents.run_id = runs.run_id
    where
        case
            when len($run_ids::varchar[]) = 0 then not starts_with(agents.base_model, 'control:')
            else list_contains($run_ids::varchar[], agents.run_id)
        end
),
newest as (
    select * from asked
    qualify row_number() over (
        partition by base_model, agent, setting, dataset_version, task_share, subsample_seed, others, variant
        order by finished_at desc, run_id
    ) = 1
)
select
    agents.dataset,
    agents.dataset_version,
    agents.turn_stat,
    agents.dialog_stat,
    agents.dataset_level,
    agents.base_model,
    newest.task_share,
    left(md5(concat_ws('|', newest.others, newest.subsample_seed)), 8) as conditions,
    agents.agent,
    newest.variant,
    agents.mean
from unidial_agents as agents
inner join newest
    on agents.run_id = newest.run_id
order by all
