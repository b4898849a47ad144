-- One row per dataset, way of pooling, model and agent: the figure of the newest of the runs in $run_ids, or of all where none is given.
with
newest as (
    select run_id, base_model, agent from (
        select distinct agents.run_id, agents.base_model, agents.agent, agents.setting, agents.dataset_version, runs.finished_at
        from unidial_agents as agents
        inner join runs
            on agents.run_id = runs.run_id
        where len($run_ids::varchar[]) = 0 or list_contains($run_ids::varchar[], agents.run_id)
    )
    qualify row_number() over (
        partition by base_model, agent, setting, dataset_version order by finished_at desc, run_id
    ) = 1
)
select
    agents.dataset,
    agents.dataset_version,
    agents.turn_stat,
    agents.dialog_stat,
    agents.dataset_level,
    agents.base_model,
    agents.agent,
    agents.mean
from unidial_agents as agents
inner join newest
    on agents.run_id = newest.run_id
order by all
