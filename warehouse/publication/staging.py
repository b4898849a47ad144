"""Staging: the rows and columns that the warehouse takes from a lake table."""

from schemas.lake.tables import LOADED
from warehouse import sql_files
from warehouse.connect import identifier

_TARGETS = {
    "episodes": ("episode_rows", "turn_rows"),
    "scores": ("score_rows",),
    "test_verdicts": ("test_verdict_rows",),
}
"""Lake table -> its tables in the warehouse, if a view has the name of the lake table."""

ONE_ROW_PER = {
    "checkpoints": "digest order by found_at, path",
    # Stagings of one version, such as with other `--templates`, share their unchanged rows.
    "dialogs": "benchmark, dataset_version, dialog_id, row_digest order by problem_id, part",
    "problems": (
        "benchmark, dataset_version, problem_id, row_digest order by source_file, source_line, part"
    ),
    "quarantine": "benchmark, dataset_version, source_file, source_line, reason, detail, excerpt",
    # A killed process can leave a row twice. The row with the audit's costs counts.
    "forgery_audit": (
        "run_id, episode_id, turn, instruction_id order by n_runs desc, outcome, verdict_id"
    ),
    "judge_drift_answers": (
        "night_id, judge, rubric, rubric_version, case_number, dimension order by asked_at"
    ),
    "judge_verdicts": "run_id, episode_id, turn, rubric, dimension, judge"
    ' order by unscored_reason is not null, judgement_id, "value", label',
    "models": "model, revision, weights_digest, chat_template"
    " order by usd_per_million_input nulls last, usd_per_million_output nulls last, "
    "usd_per_hour nulls last",
    "nights": "night_id order by finished_at desc, n_published desc",
    "run_episodes": "run_id, episode_id order by problem_id",
    "runs": "run_id order by finished_at desc, started_at desc",
    # The newest version of the metric counts.
    "score_rows": "run_id, episode_id, turn, instruction_id, metric"
    ' order by metric_version desc, "value" is null, "value", unscored_reason',
    # A row with a model's outcome replaces a row with a fault of the infrastructure.
    "test_verdict_rows": (
        "run_id, episode_id, turn, instruction_id order by outcome = 'infra', verdict_id nulls "
        "last, outcome"
    ),
}
"""Table -> its key, and the order that decides among rows with equal keys. Other tables take every
row."""


def targets(table: str) -> tuple[str, ...]:
    """Return the tables of the warehouse that hold a lake table."""
    return _TARGETS.get(table, (table,))


def selection(table: str, target: str) -> str:
    """Return the query of the rows that the table `target` takes from `incoming`.

    The query comes from the target's file in sql/staging, or from the lake table's schema.
    """
    if target in sql_files.names("staging"):
        return sql_files.load("staging", target).statement
    columns = ", ".join(identifier(name) for name in LOADED[table].schema.names)
    key = ONE_ROW_PER.get(target)
    return f"select {columns} from incoming" + (
        f" qualify row_number() over (partition by {key}) = 1" if key else ""
    )
