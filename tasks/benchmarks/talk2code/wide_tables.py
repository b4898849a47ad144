"""Result tables of Talk2Code: groups of the table `results`, and the paper's Table 1."""

from importlib.resources import files

from warehouse.wide_tables import (
    NOT_APPLICABLE,
    UNSCORED,
    Column,
    Columns,
    WideTable,
    counts,
    interval,
    result_columns,
)

_MEASURES = {
    "tp": "test_case_pass_rate",
    "sr": "success_rate",
    "qd": "question_design",
    "cl": "cognitive_load",
    "if_": "interaction_fluency",
    "ua": "user_adaptability",
    "ce": "communication_efficiency",
    "ls": "learning_support",
    "experience": "interaction_experience",
    "ec": "entity_consistency",
    "es": "entity_satisfaction",
    "sc": "semantic_consistency",
    "ss": "semantic_satisfaction",
    "delivered": "delivery_rate",
    "user_leakage": "user_leakage",
    "level_kept": "level_kept",
    "disclosed": "reference_disclosure",
}
"""Column of the paper's Table 1 -> metric that the column shows."""


def _measure_columns() -> Columns:
    columns: Columns = {}
    for name, metric in _MEASURES.items():
        columns |= interval(name, metric) | counts(
            f"n_{name.rstrip('_')}", metric, UNSCORED, NOT_APPLICABLE
        )
    return columns


LEVELS = WideTable(
    name="talk2code_levels",
    grain="One row per run x axis (level, archetype, language, all) x value of the axis: the "
    "paper's"
    " Table 1, with n of each mean.",
    key=("run_id", "axis", "level", "archetype", "language"),
    columns=result_columns("run_id benchmark model setting")
    | {
        "track": Column(
            r"regexp_extract(setting, '^[^.]*\.([a-z]+)', 1)",
            "Track of the setting: direct, interactive or golden.",
        )
    }
    | result_columns("dataset_version episode_options scoring_options axis")
    | {
        "level": Column(
            "level", "Programming level of the user; NULL where the axis is `language` or `all`."
        ),
        "archetype": Column(
            "case axis when 'archetype' then position end",
            "Archetype of the user within the level.",
        ),
        "language": Column(
            "case axis when 'language' then position end", "Programming language of the dialogue."
        ),
        "n_dialogues": Column("max(n_dialogs)", "Dialogues of the group."),
    }
    | _measure_columns()
    | result_columns("sandbox isolated task_share"),
    source=(
        "from results where benchmark = 'talk2code' and axis in ('all', 'level', 'archetype', "
        "'language')"
    ),
)
MARTS = (files("tasks.benchmarks.talk2code") / "marts" / "talk2code_groups.sql", LEVELS)
