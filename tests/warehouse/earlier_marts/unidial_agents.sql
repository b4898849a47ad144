-- One row per run x way of pooling: the model without its agent, the agent (NULL for none), and the figure over all dialogues.
with
changed as (
    select runs.run_id, json_extract_string(runs.spec_json, '$.agent.name') as agent
    from runs
    inner join changed_runs
        on runs.run_id = changed_runs.run_id
)
select
    pooled.run_id,
    pooled.benchmark,
    pooled.model,
    left(pooled.model, length(pooled.model) - coalesce(length(changed.agent) + 1, 0)) as base_model,
    changed.agent,
    pooled.dataset,
    pooled.setting,
    pooled.dataset_version,
    pooled.turn_stat,
    pooled.dialog_stat,
    pooled.dataset_level,
    pooled.count,
    pooled.mean,
    pooled.min,
    pooled.max,
    pooled.n_unscored,
    pooled.sandbox,
    pooled.isolated
from unidial_pooled as pooled
inner join changed
    on pooled.run_id = changed.run_id
where pooled.grouping = 'global'
