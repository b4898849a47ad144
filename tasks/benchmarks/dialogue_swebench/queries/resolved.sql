-- One row per published run in $run_ids (all published runs if none is given), newest first.
select
    agents.run_id,
    agents.model,
    agents.setting,
    agents.dataset_version,
    agents."sample",
    agents.asks,
    agents.n_asks,
    agents.turns,
    agents.resolved,
    agents.n_resolved,
    agents.isolated,
    runs.spec_json,
    runs.task_share,
    runs.subsample_seed
from dialogue_swebench_agents as agents
inner join runs
    on agents.run_id = runs.run_id
where agents.axis = 'all'
    and (len($run_ids) = 0 or list_contains($run_ids, agents.run_id))
order by runs.finished_at desc, agents.run_id
