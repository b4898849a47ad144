"""Published runs of the benchmark with their figures and conditions, for tables."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    Condition,
    chosen_runs,
    condition_cells,
    condition_of,
    without,
)
from tasks.benchmarks.convcode.log_files.log_folder import file_model_name
from tasks.benchmarks.convcode.settings import settings
from tasks.language.providers.registry import is_control
from warehouse.connect import query
from warehouse.sql_files import read_sql


def query_marts(home: Path, name: str, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the SQL query `queries/NAME.sql` of this benchmark.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    marts = query(
        home,
        "select table_name from information_schema.tables where table_name = 'convcode_settings'",
    )[1]
    if not marts:
        raise UsageError(
            f"no run of convcode is published in {home}. "
            "`parley run convcode.SETTING --model SPEC` creates one"
        )
    statement = read_sql(files("tasks.benchmarks.convcode") / "queries" / f"{name}.sql").statement
    names, rows = query(home, statement, {"run_ids": list(run_ids)})
    return [dict(zip(names, row, strict=True)) for row in rows]


def rows_of_runs(
    home: Path, name: str, run_ids: Sequence[str], *, has_controls: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of a query with the columns of their run's condition.

    Without run ids, the newest run of each model, setting and condition is included.
    """
    runs = chosen_runs(home, "convcode", run_ids, settings(), has_controls=has_controls)
    return [
        dict(zip(CONDITION_COLUMNS, condition_cells(runs[record["run_id"]]), strict=True)) | record
        for record in query_marts(home, name, tuple(runs))
    ]


@dataclass(frozen=True)
class Run:
    """Figures of one run."""

    part: str
    model: str
    dataset_version: str
    feedback: str
    turns: int
    options: str
    reference_model: str | None
    mrr: float | None
    mrr_upstream: float | None
    recall: float | None
    n_mrr: int
    n_mrr_unscored: int
    n_recall: int
    n_recall_unscored: int
    isolated: bool
    condition: Condition

    @property
    def is_of_control(self) -> bool:
        """Return True if the answers come from a control."""
        return is_control(self.model)

    @property
    def compared_by(self) -> tuple[str, str, int]:
        """Return the values that must be equal in a static run and a live run to compare them."""
        return self.dataset_version, self.feedback, self.turns

    @property
    def replayed_condition(self) -> Condition:
        """Return the condition without the digest of the data.

        It differs between static settings, since each has logs of its own.
        """
        return without(self.condition, "dataset_digest")

    @property
    def is_of_reference(self) -> bool:
        """Return True if the replayed logs come from the model under test itself."""
        names = {file_model_name(self.model), file_model_name(self.model.partition(":")[2])}
        return self.reference_model is not None and file_model_name(self.reference_model) in names


def published_runs(home: Path, run_ids: Sequence[str]) -> list[Run]:
    """Return the figures of the named or all published runs, newest first."""
    columns = {field.name for field in fields(Run)}
    return [
        Run(
            **{name: value for name, value in record.items() if name in columns},
            condition=condition_of(record, settings()),
        )
        for record in query_marts(home, "figures", run_ids)
    ]
