"""Published runs as a comparison sees them: what they are comparable with, in which order they came, and their names."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schemas.content_id import content_id
from schemas.night.comparison import THRESHOLD
from warehouse import sql_files

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CONDITION = (
    "benchmark",
    "setting",
    "dataset_version",
    "episode_options",
    "scoring_options",
    "agent",
)
"""Fields of a RunSpec that two comparable runs have in common; and who speaks for the user."""
_SAME_SERIES = (*_CONDITION, "sampling", "samples")
_LEAST_PREFIX = 6


@dataclass(frozen=True)
class ComparedRun:
    """One published run. `first_seen` is when any night first worked on it: ISO 8601, UTC."""

    run_id: str
    night_id: str
    benchmark: str
    setting: str
    dataset_version: str
    model: str
    revision: str
    spec_json: str
    sandbox: str
    isolated: bool
    task_share: float | None
    """Share of the dataset's tasks that it has; None where it has all."""
    subsample_seed: int | None
    finished_at: str
    first_seen: str
    family: str
    baseline: str | None
    threshold: float | None
    thresholds: Sequence[Mapping[str, Any]] | None

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """The RunSpec as plain data."""
        return json.loads(self.spec_json)

    @cached_property
    def condition(self) -> str:
        """Equal for runs that ask the same of different models."""
        return self._digest(_CONDITION)

    @cached_property
    def series(self) -> str:
        """Equal for runs that also draw their tokens alike: what follows each other in a family."""
        return self._digest(_SAME_SERIES)

    @property
    def checkpoint(self) -> str:
        """Digest of the model's identity."""
        return content_id(self.spec["subject"])

    @property
    def names(self) -> frozenset[str]:
        """What a person may call the model: its label, the label with its revision, the label's last part, its family."""
        last = self.model.rpartition("/")[2]
        called = {self.model, last, self.family}
        return frozenset(
            called | {f"{name}@{self.revision}" for name in called} if self.revision else called
        )

    @property
    def judges(self) -> frozenset[str]:
        """Labels of the models that judge in it."""
        specs = [one["judge"] for one in self.spec.get("judges") or ()]
        return frozenset(f"{judge['provider']}:{judge['name']}" for judge in specs)

    def threshold_of(self, metric: str) -> float:
        """Least loss that is a regression."""
        of_metric = {pair["key"]: pair["value"] for pair in self.thresholds or ()}
        return of_metric.get(metric, THRESHOLD if self.threshold is None else self.threshold)

    def differs(self, other: "ComparedRun") -> tuple[str, ...]:
        """Fields of both specs that differ, besides the model under test; and `tasks`, where one has others than the other."""
        names = {
            name
            for name in {*self.spec, *other.spec}
            if self.spec.get(name) != other.spec.get(name)
        }
        tasks = {(run.task_share, run.subsample_seed) for run in (self, other)}
        return tuple(sorted(names - {"subject"} | ({"tasks"} if len(tasks) > 1 else set())))

    def _digest(self, fields: Sequence[str]) -> str:
        simulator = self.spec.get("simulator") or {}
        said_by = (simulator.get("provider"), simulator.get("name"))
        return content_id([*(self.spec.get(field) for field in fields), said_by])


def read_runs(connection: "DuckDBPyConnection") -> tuple[ComparedRun, ...]:
    """All published runs."""
    cursor = connection.execute(sql_files.load("queries", "compared_runs").statement)
    columns = [column[0] for column in cursor.description or ()]
    return tuple(ComparedRun(**dict(zip(columns, row, strict=True))) for row in cursor.fetchall())


def runs_named(runs: Iterable[ComparedRun], name: str) -> tuple[ComparedRun, ...]:
    """Runs of that id (or a beginning of it, six characters at least), else those whose model is called so."""
    runs = tuple(runs)
    by_id = tuple(run for run in runs if len(name) >= _LEAST_PREFIX and run.run_id.startswith(name))
    return by_id or tuple(run for run in runs if name in run.names)


def in_order(runs: Sequence[ComparedRun]) -> tuple[tuple[ComparedRun, ...], ...]:
    """Runs of one series, checkpoint by checkpoint, as they were trained or came.

    Where the models' names differ in numbers alone (`step-1000`, `step-2000`), the numbers decide: a checkpoint that was
    evaluated late stands where it belongs. Otherwise, and for one name with several revisions, the first evaluation decides.
    """
    checkpoints: dict[str, list[ComparedRun]] = {}
    for run in runs:
        checkpoints.setdefault(run.checkpoint, []).append(run)
    is_numbered = len({re.sub(r"\d+", "#", run.model) for run in runs}) == 1

    def place(of_one: Sequence[ComparedRun]) -> tuple[list[int], str, str]:
        numbers = (
            [int(digits) for digits in re.findall(r"\d+", of_one[0].model)] if is_numbered else []
        )
        return numbers, min(run.first_seen for run in of_one), of_one[0].checkpoint

    return tuple(
        tuple(sorted(found, key=lambda run: run.run_id))
        for found in sorted(checkpoints.values(), key=place)
    )


def most_alike(run: ComparedRun, others: Iterable[ComparedRun]) -> ComparedRun | None:
    """Of several runs, the one that differs in the fewest fields; of such, the latest."""
    ordered = sorted(others, key=lambda other: (other.finished_at, other.run_id), reverse=True)
    return min(ordered, key=lambda other: len(run.differs(other)), default=None)
