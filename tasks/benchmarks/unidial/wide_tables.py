"""Result tables: the paper's pooled statistics, and each model's figure with and without agents."""

from importlib.resources import files

from warehouse.wide_tables import Column, WideTable, result_columns

_POOLED = files("tasks.benchmarks.unidial") / "marts" / "unidial_pooled.sql"
_NAME_LENGTH = "length(pooled.model) - coalesce(length(runs.spec_json ->> '$.agent.name') + 1, 0)"

AGENTS = WideTable(
    name="unidial_agents",
    grain="One row per run x way of pooling: the model without its agent, the agent (NULL for"
    " none), and the figure over all dialogues.",
    key=("run_id", "turn_stat", "dialog_stat", "dataset_level"),
    columns=result_columns("run_id benchmark model")
    | {
        "base_model": Column("base_model", "Model without its agent."),
        "agent": Column("agent", "Agent around the model; NULL without one."),
    }
    | result_columns(
        "dataset setting dataset_version turn_stat dialog_stat dataset_level count mean min "
        "max n_unscored"
    )
    | result_columns("sandbox isolated task_share"),
    source=f"""from (
    select
        pooled.*, left(pooled.model, {_NAME_LENGTH}) as base_model,
        runs.spec_json ->> '$.agent.name' as agent
    from unidial_pooled as pooled
    inner join runs on pooled.run_id = runs.run_id
    where pooled.grouping = 'global'
)""",
    base=_POOLED,
)
MARTS = (_POOLED, AGENTS)
