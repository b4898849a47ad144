"""Results as tables: a row for each run, named by what tells it from the others, and a column for each metric.

A mean never stands without its n, its interval and what is unscored: all of them are in one cell.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.outside.display import markdown_cell, plain_line
from tasks.benchmarks.registry import BENCHMARKS

_MANY_SETTINGS, _FIRST_METRICS = 3, 3
"""From so many settings on, a table on the terminal has so many of its benchmark's metrics."""

Record = Mapping[str, Any]
"""A row of the query `result_table`."""
Results = Mapping[str, Record]
"""Metric -> what a run has of it."""


@dataclass(frozen=True)
class ResultTable:
    """Runs of one benchmark, in the order in which they come."""

    benchmark: str
    labels: tuple[Mapping[str, str], ...]
    """Of each run: setting, data, model and sandbox; also the run itself where two have all of these in common."""
    results: tuple[Results, ...]
    metrics: tuple[str, ...]
    """Those that any run has, in the benchmark's order."""

    @property
    def shared(self) -> tuple[str, ...]:
        """Labels that are the same in all rows: they stand in the title. A model always has its column."""
        first = self.labels[0]
        return tuple(
            name
            for name in first
            if name != "model" and len({label[name] for label in self.labels}) == 1
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Labels that need a column."""
        return tuple(name for name in self.labels[0] if name not in self.shared)

    @property
    def title(self) -> str:
        """Benchmark, or setting where all rows have one, and the other labels that they share."""
        first = self.labels[0]
        named = first["setting"] if "setting" in self.shared else self.benchmark
        others = (f"{name} {first[name]}" for name in self.shared if name != "setting")
        return " · ".join(["Results", f"benchmark {named}", *others])

    @property
    def first_metrics(self) -> tuple[str, ...]:
        """Those to print."""
        has_many = len({label["setting"] for label in self.labels}) >= _MANY_SETTINGS
        return self.metrics[:_FIRST_METRICS] if has_many else self.metrics


def result_tables(records: Sequence[Record]) -> Iterator[ResultTable]:
    """A table for each benchmark."""
    for benchmark in dict.fromkeys(record["benchmark"] for record in records):
        runs: dict[str, dict[str, Record]] = {}
        for record in records:
            if record["benchmark"] == benchmark:
                runs.setdefault(record["run_id"], {})[record["metric"]] = record
        measured = dict.fromkeys(name for results in runs.values() for name in results)
        ordered = BENCHMARKS.load(benchmark).all_metrics if benchmark in BENCHMARKS.names() else ()
        found = tuple(
            name for name in (*ordered, *(measured.keys() - set(ordered))) if name in measured
        )
        labels = _labels([next(iter(results.values())) for results in runs.values()])
        yield ResultTable(benchmark, labels, tuple(runs.values()), found)


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
    """The mean itself; a dash where there is none."""
    return "–" if result is None or result["mean"] is None else f"{result['mean']:.3f}"


def interval_text(result: Record | None) -> str:
    """The 95% interval; empty where there is none."""
    return (
        ""
        if result is None or result["ci_low"] is None
        else f"{result['ci_low']:.3f}…{result['ci_high']:.3f}"
    )


def markdown_table(table: ResultTable) -> str:
    """All labels and metrics, by their full names; all cells are data."""
    lines = [(*table.labels[0], *table.metrics)]
    for label, results in zip(table.labels, table.results, strict=True):
        cells = (results.get(metric) for metric in table.metrics)
        lines.append((*label.values(), *(_in_one_line(cell) for cell in cells)))
    rows = ["| " + " | ".join(markdown_cell(text) for text in line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + " --- |" * len(lines[0]), *rows[1:]])


def _in_one_line(result: Record | None) -> str:
    if result is None:
        return mean_text(result)
    interval = f" ({interval_text(result)})" if interval_text(result) else ""
    return f"{mean_text(result)}{interval}, n={result['n']}, {result['n_unscored']} unscored"
