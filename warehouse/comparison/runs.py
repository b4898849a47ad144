"""Published runs as a comparison sees them: their conditions, order and names."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schemas.content_id import content_id
from schemas.grouping import grouped
from schemas.night.decision import THRESHOLD
from warehouse import sql_files
from warehouse.connect import fetch_rows

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
"""Fields of a RunSpec that comparable runs have in common. The model of the simulated user is
compared, too."""
_SAME_SERIES = (*_CONDITION, "sampling", "samples")
_LEAST_PREFIX = 6


@dataclass(frozen=True)
class ComparedRun:
    """A published run. `first_seen` is when a night first worked on it: ISO 8601, UTC."""

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
    """Share of the dataset's tasks that the run has. None: all tasks."""
    subsample_seed: int | None
    finished_at: str
    first_seen: str
    family: str
    baseline: str | None
    threshold: float | None
    thresholds: Sequence[Mapping[str, Any]] | None

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """Return the RunSpec as plain data."""
        return json.loads(self.spec_json)

    @cached_property
    def condition(self) -> str:
        """Return a digest that is equal for runs with the same questions for different models."""
        return self._digest(_CONDITION)

    @cached_property
    def series(self) -> str:
        """Return a digest that is equal for runs with equal conditions and sampling."""
        return self._digest(_SAME_SERIES)

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns that `comparisons` and `history` take from a run, but sandbox."""
        names = "run_id night_id benchmark setting dataset_version model revision family"
        return {name: getattr(self, name) for name in names.split()}

    @property
    def checkpoint(self) -> str:
        """Return a digest of the model's identity."""
        return content_id(self.spec["subject"])

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the model.

        They are its label, the last part of the label, and its family, each also with the revision.
        """
        last = self.model.rpartition("/")[2]
        labels = {self.model, last, self.family}
        return frozenset(
            labels | {f"{name}@{self.revision}" for name in labels} if self.revision else labels
        )

    @property
    def judges(self) -> frozenset[str]:
        """Return the labels of the judge models."""
        specs = [judge_spec["judge"] for judge_spec in self.spec.get("judges") or ()]
        return frozenset(f"{judge['provider']}:{judge['name']}" for judge in specs)

    def threshold_of(self, metric: str) -> float:
        """Return the smallest loss of a metric that is a regression."""
        of_metric = {pair["key"]: pair["value"] for pair in self.thresholds or ()}
        return of_metric.get(metric, THRESHOLD if self.threshold is None else self.threshold)

    def differs(self, other: "ComparedRun") -> tuple[str, ...]:
        """Return the fields that differ between both specs, without the model under test.

        `tasks` is included if the runs have different tasks.
        """
        names = {
            name
            for name in {*self.spec, *other.spec}
            if self.spec.get(name) != other.spec.get(name)
        }
        tasks = {(run.task_share, run.subsample_seed) for run in (self, other)}
        return tuple(sorted(names - {"subject"} | ({"tasks"} if len(tasks) > 1 else set())))

    def differing_options(self, other: "ComparedRun") -> str:
        """Return the options that differ between both runs, such as `history=a here, b there`."""
        options, others = (
            {
                name: value
                for field in ("episode_options", "scoring_options")
                for name, value in run.spec.get(field) or ()
            }
            for run in (self, other)
        )
        return "; ".join(
            f"{name}={options.get(name, 'unset')} for {self.model},"
            f" {others.get(name, 'unset')} for {other.model}"
            for name in sorted({*options, *others})
            if options.get(name) != others.get(name)
        )

    def _digest(self, fields: Sequence[str]) -> str:
        simulator = self.spec.get("simulator") or {}
        user_model = (simulator.get("provider"), simulator.get("name"))
        return content_id([*(self.spec.get(field) for field in fields), user_model])


def read_runs(connection: "DuckDBPyConnection") -> tuple[ComparedRun, ...]:
    """Return all published runs."""
    cursor = connection.execute(sql_files.load("queries", "compared_runs").statement)
    return tuple(ComparedRun(**row) for row in fetch_rows(cursor))


def runs_named(runs: Iterable[ComparedRun], name: str) -> tuple[ComparedRun, ...]:
    """Return the runs with this id (or a prefix of at least six characters).

    If there are none, return the runs whose model has this name.
    """
    runs = tuple(runs)
    by_id = tuple(run for run in runs if len(name) >= _LEAST_PREFIX and run.run_id.startswith(name))
    return by_id or tuple(run for run in runs if name in run.names)


def in_order(runs: Sequence[ComparedRun]) -> tuple[tuple[ComparedRun, ...], ...]:
    """Return the runs of one series by checkpoint, in the order of training or first evaluation.

    If the models' names differ only in numbers (`step-1000`, `step-2000`), the numbers decide, so a
    checkpoint that was evaluated late is in its place. Otherwise, also for one name with several
    revisions, the first evaluation decides.
    """
    checkpoints = grouped((run.checkpoint, run) for run in runs)
    is_numbered = len({re.sub(r"\d+", "#", run.model) for run in runs}) == 1

    def place(of_one: Sequence[ComparedRun]) -> tuple[list[int], str, str]:
        numbers = (
            [int(digits) for digits in re.findall(r"\d+", of_one[0].model)] if is_numbered else []
        )
        return numbers, min(run.first_seen for run in of_one), of_one[0].checkpoint

    return tuple(
        tuple(sorted(members, key=lambda run: run.run_id))
        for members in sorted(checkpoints.values(), key=place)
    )


def nearest_run(run: ComparedRun, others: Iterable[ComparedRun]) -> ComparedRun | None:
    """Return the run that differs in the fewest fields, the latest one of several, or None."""
    ordered = sorted(others, key=lambda other: (other.finished_at, other.run_id), reverse=True)
    return min(ordered, key=lambda other: len(run.differs(other)), default=None)
