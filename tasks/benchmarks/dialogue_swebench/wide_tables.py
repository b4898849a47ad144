"""Result tables of Dialogue-SWEBench: groups of the table `results`, and Tables 1 and 4."""

from importlib.resources import files

from tasks.metrics.repository_dialogue import (
    agent_steps,
    coherence,
    dialogue_turns,
    information_seeking,
    naturalness,
    resolved,
    user_faithful,
    user_in_environment,
    user_on_goal,
    user_revised,
    user_without_fault,
)
from warehouse.wide_tables import (
    UNSCORED,
    Column,
    Columns,
    WideTable,
    counts,
    interval,
    mean,
    result_columns,
)

_SAMPLE = """coalesce(list_filter(
        from_json(scoring_options::json, '[["varchar"]]'), lambda option: option[1] = 'sample'
    )[1][2], 'all')"""


def _measured() -> Columns:
    columns: Columns = {}
    for name, metric in (
        ("turns", dialogue_turns),
        ("steps", agent_steps),
        ("asks", information_seeking),
        ("naturalness", naturalness),
        ("coherence", coherence),
    ):
        columns |= mean(name, metric.name) | counts(f"n_{name}", metric.name, UNSCORED)
    return columns


AGENTS = WideTable(
    name="dialogue_swebench_agents",
    grain="One row per run x axis (all, difficulty) x value of that axis: the paper's Table 1, with"
    " n beside each mean.",
    key=("run_id", "axis", "difficulty"),
    columns=result_columns("run_id benchmark model setting dataset_version episode_options")
    | {"sample": Column(_SAMPLE, "Which dialogues judges read: the scoring option `sample`.")}
    | result_columns("axis")
    | {
        "difficulty": Column("position", "Difficulty of the issue; NULL where the axis is `all`."),
        "n_dialogues": Column("max(n_dialogs)", "Dialogues of the group."),
    }
    | interval("resolved", resolved.name)
    | counts("n_resolved", resolved.name, UNSCORED)
    | _measured()
    | result_columns("sandbox isolated task_share"),
    source="from results where benchmark = 'dialogue_swebench' and axis in ('all', 'difficulty')",
)
_OF_WHOLE = f"filter (metric = '{user_revised.name}')"
USER = WideTable(
    name="dialogue_swebench_user",
    grain="One row per run x level (turn, dialogue): Table 4, shares of simulated replies and of"
    " dialogues that meet each criterion.",
    key=("run_id", "level"),
    columns=result_columns("run_id benchmark model setting dataset_version")
    | {
        "simulator": Column("simulator", "Model that spoke for the user."),
        "level": Column(
            "level",
            "Unit of the shares: each reply of the user (`turn`), or each dialogue (`dialogue`).",
        ),
    }
    | mean("faithful", user_faithful.name)
    | mean("on_goal", user_on_goal.name)
    | mean("in_environment", user_in_environment.name)
    | mean("all_three", user_without_fault.name)
    | counts("n", user_without_fault.name, UNSCORED)
    | {
        "revised_share": Column(
            f"max(mean) {_OF_WHOLE}",
            "Share of the user's drafts that were revised, in the whole run.",
        ),
        "n_revised": Column(f"max(n) {_OF_WHOLE}", "Dialogues behind `revised_share`."),
    }
    | result_columns("isolated task_share"),
    source="""from (
    select
        runs.run_id, runs.benchmark, runs.model, runs.setting, runs.dataset_version, runs.isolated,
        runs.task_share,
        runs.spec_json ->> '$.simulator.name' as simulator,
        wanted.level, results.metric, results.mean, results.n, results.n_unscored
    from runs
    cross join (values ('turn', 'user_turn'), ('dialogue', 'user_dialogue')) as wanted(level, axis)
    left join results on runs.run_id = results.run_id
        and (
            results.axis = wanted.axis
            or (results.axis = 'all' and results.metric = 'user_revised')
        )
    where runs.benchmark = 'dialogue_swebench' and runs.status = 'finished'
)""",
)
MARTS = (
    files("tasks.benchmarks.dialogue_swebench") / "marts" / "dialogue_swebench_groups.sql",
    AGENTS,
    USER,
)
