"""Result tables: a row for each run, a column for each metric.

A row begins with the labels that distinguish its run from the others. A cell holds a mean with n,
interval and number of unscored values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.outside.display import markdown_cell, plain_line
from tasks.benchmarks.registry import BENCHMARKS

_MANY_SETTINGS, _FIRST_METRICS = 3, 3
"""A table with at least this many settings shows only this many metrics on a terminal."""

STOPPED_EARLY = "stopped early"
"""Text shown instead of an interval if the run was stopped early by the decision on another metric.
"""
Record = Mapping[str, Any]
"""Row of the query `result_table`."""
Results = Mapping[str, Record]
"""Map from metric to the row of one run."""


@dataclass(frozen=True)
class ResultTable:
    """Results of one benchmark's runs, in the order of the runs."""

    benchmark: str
    labels: tuple[Mapping[str, str], ...]
    """Labels of each run: setting, data, model and sandbox.

    The run's id is a further label if two runs have the same labels otherwise.
    """
    results: tuple[Results, ...]
    metrics: tuple[str, ...]
    """Metrics that at least one run has, in the benchmark's order."""

    @property
    def shared(self) -> tuple[str, ...]:
        """Return the labels that are equal in all rows, which are shown in the title.

        The model always has a column.
        """
        first = self.labels[0]
        return tuple(
            name
            for name in first
            if name != "model" and len({label[name] for label in self.labels}) == 1
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the labels that need a column."""
        return tuple(name for name in self.labels[0] if name not in self.shared)

    @property
    def title(self) -> str:
        """Return the title: the setting or benchmark of all rows, and the other shared labels."""
        first = self.labels[0]
        scope = first["setting"] if "setting" in self.shared else self.benchmark
        others = (f"{name} {first[name]}" for name in self.shared if name != "setting")
        return " · ".join(["Results", f"benchmark {scope}", *others])

    @property
    def first_metrics(self) -> tuple[str, ...]:
        """Return the metrics that a terminal shows."""
        has_many = len({label["setting"] for label in self.labels}) >= _MANY_SETTINGS
        return self.metrics[:_FIRST_METRICS] if has_many else self.metrics


def result_tables(records: Sequence[Record]) -> Iterator[ResultTable]:
    """Yield a table for each benchmark."""
    for benchmark in dict.fromkeys(record["benchmark"] for record in records):
        runs: dict[str, dict[str, Record]] = {}
        for record in records:
            if record["benchmark"] == benchmark:
                runs.setdefault(record["run_id"], {})[record["metric"]] = record
        measured = dict.fromkeys(name for results in runs.values() for name in results)
        ordered = BENCHMARKS.load(benchmark).all_metrics if benchmark in BENCHMARKS.names() else ()
        metrics = tuple(
            name for name in (*ordered, *(measured.keys() - set(ordered))) if name in measured
        )
        labels = _labels([next(iter(results.values())) for results in runs.values()])
        yield ResultTable(benchmark, labels, tuple(runs.values()), metrics)


def _labels(runs: Sequence[Record]) -> tuple[dict[str, str], ...]:
    labels = [
        {
            "setting": run["setting"],
            "data": run["dataset_version"]
            + ("" if run["task_share"] is None else f" ({run['task_share']:.1%} of its tasks)"),
            "model": run["model"],
            "sandbox": run["sandbox"] if run["isolated"] else f"{run['sandbox']} (NOT ISOLATED)",
        }
        for run in runs
    ]
    if len({tuple(label.values()) for label in labels}) < len(labels):
        labels = [
            {**label, "run": run["run_id"][:12]} for label, run in zip(labels, runs, strict=True)
        ]
    return tuple({name: plain_line(text) for name, text in label.items()} for label in labels)


def mean_text(result: Record | None) -> str:
    """Return the mean as text; a dash if there is none."""
    return "–" if result is None or result["mean"] is None else f"{result['mean']:.3f}"


def interval_text(result: Record | None) -> str:
    """Return the 95% interval as text, or an empty text if there is none.

    The text is `stopped early` if an early stop makes the interval invalid.
    """
    if result is None or result["mean"] is None:
        return ""
    if result["ci_low"] is None:
        return "" if result["interval_kind"] else STOPPED_EARLY
    return f"{result['ci_low']:.3f}…{result['ci_high']:.3f}"


def markdown_table(table: ResultTable) -> str:
    """Return the table as Markdown with full names of labels and metrics. All cells are escaped."""
    lines = [(*table.labels[0], *table.metrics)]
    for label, results in zip(table.labels, table.results, strict=True):
        cells = (results.get(metric) for metric in table.metrics)
        lines.append((*label.values(), *(_cell_text(cell) for cell in cells)))
    rows = ["| " + " | ".join(markdown_cell(text) for text in line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + " --- |" * len(lines[0]), *rows[1:]])


def _cell_text(result: Record | None) -> str:
    if result is None:
        return mean_text(result)
    interval = f" ({interval_text(result)})" if interval_text(result) else ""
    return f"{mean_text(result)}{interval}, n={result['n']}, {result['n_unscored']} unscored"
