"""Result tables: a row for each run, a column for each metric.

A row begins with the labels that distinguish its run from the others. A cell holds a mean with n,
interval and number of unscored values.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.text.records import GAP, markdown_table, piped_width
from schemas.outside.display import plain_line
from tasks.benchmarks.registry import BENCHMARKS
from tasks.metrics.registry import heading_of

_MANY_SETTINGS, _FIRST_METRICS = 3, 3
"""A table with at least this many settings shows only this many metrics on a terminal."""

STOPPED_EARLY = "stopped early"
"""Text shown instead of an interval if the run was stopped early by the decision on another metric.
"""
Record = Mapping[str, Any]
"""Row of the query `result_table`."""
Results = Mapping[str, Record]
"""Rows of one run, by metric."""


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


def result_markdown_table(table: ResultTable) -> str:
    """Return the table as Markdown with full names of labels and metrics. All cells are escaped."""
    rows = [
        (*label.values(), *(_cell_text(results.get(metric)) for metric in table.metrics))
        for label, results in zip(table.labels, table.results, strict=True)
    ]
    return markdown_table((*table.labels[0], *table.metrics), rows)


def _cell_text(result: Record | None) -> str:
    if result is None:
        return mean_text(result)
    interval = f" ({interval_text(result)})" if interval_text(result) else ""
    return f"{mean_text(result)}{interval}, n={result['n']}, {result['n_unscored']} unscored"


_METRICS_BESIDE = 4
"""Number of metric columns that must fit beside the labels, for which model names are shortened."""
_SHORTEST_NAME = 16


def print_table(table: ResultTable) -> None:
    """Print a table. If not all metrics fit, print several tables one below the other."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=piped_width())
    headings = {metric: heading_of(metric) for metric in table.first_metrics}
    widths = {
        metric: _width(headings[metric], [run.get(metric) for run in table.results])
        for metric in headings
    }
    room = console.width - 2 - sum(width + GAP for width in list(widths.values())[:_METRICS_BESIDE])
    labels = _printed_labels(table, room)
    room = console.width - 2 - sum(width + GAP for width, _ in labels.values())
    console.print(Text(table.title, style="table.title"))
    for part in _parts(widths, room):
        rows = [[_cell_lines(run.get(metric)) for metric in part] for run in table.results]
        console.print(_part(labels, {headings[metric]: widths[metric] for metric in part}, rows))
    print(_legend(table, headings, console.width - 1), end="\n\n")


def _width(heading: str, results: Sequence[Record | None]) -> int:
    lines = [line for result in results for line in _cell_lines(result)]
    return max(map(len, (*heading.split(), *lines)))


def _cell_lines(result: Record | None) -> tuple[str, ...]:
    """Return the lines of a cell: mean and n, the interval, the number of unscored values."""
    if result is None:
        return (mean_text(result),)
    unscored = f"{result['n_unscored']} unscored" if result["n_unscored"] else ""
    return (
        f"{mean_text(result):<5}  n={result['n']}",
        *(line for line in (interval_text(result), unscored) if line),
    )


def _printed_labels(table: ResultTable, room: int) -> dict[str, tuple[int, list[str]]]:
    """Return a map from label to the width and texts of its column.

    Model names get the room that the other columns leave.
    """
    texts = {name: [label[name] for label in table.labels] for name in table.names}
    if "setting" in texts:
        texts["setting"] = [text.removeprefix(f"{table.benchmark}.") for text in texts["setting"]]
    widths = {name: max(map(len, [name, *column])) for name, column in texts.items()}
    others = sum(width + GAP for name, width in widths.items() if name != "model")
    widths["model"] = min(widths["model"], max(_SHORTEST_NAME, room - others - GAP))
    texts["model"] = distinct_names(texts["model"], widths["model"])
    return {name: (widths[name], column) for name, column in texts.items()}


def distinct_names(names: Sequence[str], width: int) -> list[str]:
    """Return names shortened to at most `width` characters, all different.

    The names are cut in the middle, or after their common prefix, or elsewhere, until all differ.
    They stay unchanged if no cut makes them differ.
    """
    long = {name for name in names if len(name) > width} or {""}
    ends = enumerate(zip(min(long), max(long), strict=False))
    n_common = next((at for at, (first, last) in ends if first != last), 0)
    for start in (0, n_common):
        stripped = [f"…{name[start:]}" if start and name in long else name for name in names]
        for head in sorted(range(1, width), key=lambda at: abs(at - width // 2)):
            cut = [
                name
                if len(name) <= width
                else f"{name[:head]}…{name[len(name) - width + head + 1 :]}"
                for name in stripped
            ]
            if len(set(cut)) == len(set(names)):
                return cut
    return list(names)


def _parts(widths: Mapping[str, int], room: int) -> Iterator[list[str]]:
    """Yield groups of metrics that fit side by side."""
    part: list[str] = []
    left = room
    for metric, width in widths.items():
        if part and width + GAP > left:
            yield part
            part, left = [], room
        part.append(metric)
        left -= width + GAP
    if part:
        yield part


def _part(
    labels: Mapping[str, tuple[int, list[str]]],
    headings: Mapping[str, int],
    rows: Sequence[list[tuple[str, ...]]],
) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0))
    for name, width in [*((name, width) for name, (width, _) in labels.items()), *headings.items()]:
        grid.add_column(Text(name), width=width, overflow="fold")
    for at, row in enumerate(rows):
        grid.add_row(*(Text(column[at]) for _, column in labels.values()), *map(_cell, row))
    return grid


def _cell(lines: Sequence[str]) -> Any:
    """Return a cell in which everything but the mean is dim."""
    from rich.text import Text

    mean, *_ = lines[0].split()
    return Text.assemble(mean, ("\n".join(lines).removeprefix(mean), "dim"))


def _legend(table: ResultTable, headings: Mapping[str, str], width: int) -> str:
    """Return the legend: how to read a cell, and the metric of each heading."""
    results = [run[metric] for run in table.results for metric in headings if metric in run]
    faults = (
        "then the number of values that faults left unscored"
        if any(result["n_unscored"] for result in results)
        else "no fault left a value unscored"
    )
    legend = f"Mean and n, the 95% interval below; {faults}."
    if any(result["n_not_applicable"] for result in results):
        legend += " n excludes values that do not apply: see unscored_reason in the table scores."
    if any(interval_text(result) == STOPPED_EARLY for result in results):
        legend += (
            " Stopped early: other scores decided when the run stopped, so this one has no valid"
            " interval."
        )
    renamed = [
        f"{heading} = {metric}".replace(" ", "\u00a0")
        for metric, heading in headings.items()
        if heading != metric
    ]
    others = [metric for metric in table.metrics if metric not in headings]
    more = f"Also in the warehouse: {', '.join(others)}" if others else ""
    lines = filter(None, (legend, " · ".join(renamed), more))
    filled = (
        textwrap.fill(line, width, initial_indent=" ", subsequent_indent=" ") for line in lines
    )
    return "\n".join(filled).replace("\u00a0", " ")
