-- One row per published run in $run_ids, newest first, with its subject's cost. Default: all runs.
select
    agents.run_id,
    agents.model,
    agents.setting,
    agents.dataset_version,
    agents."sample",
    agents.resolved,
    agents.n_resolved,
    agents.turns,
    agents.steps,
    costs.usd / agents.n_dialogues as usd,
    agents.n_dialogues,
    agents.isolated,
    runs.spec_json,
    runs.task_share,
    runs.subsample_seed
from dialogue_swebench_agents as agents
inner join runs
    on agents.run_id = runs.run_id
left join costs
    on agents.run_id = costs.run_id
    and costs.role = 'subject'
where agents.axis = 'all'
    and (len($run_ids) = 0 or list_contains($run_ids, agents.run_id))
order by runs.finished_at desc, agents.run_id
