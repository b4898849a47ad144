"""Published runs of the benchmark with their figures and conditions, for tables."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tasks.benchmarks.conditions import Condition, condition_of, query_records, without
from tasks.benchmarks.convcode.log_files.log_folder import file_model_name
from tasks.benchmarks.convcode.settings import settings
from tasks.language.providers.registry import is_control


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
        for record in query_records(home, "convcode", "figures", run_ids)
    ]
