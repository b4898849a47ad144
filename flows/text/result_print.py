"""Result tables on the terminal: columns that fit, shortened names, and a legend."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.text.column_widths import GAP, piped_width
from flows.text.result_table import STOPPED_EARLY, Record, ResultTable, interval_text, mean_text
from tasks.metrics.registry import heading_of

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
    labels = _labels(table, room)
    room = console.width - 2 - sum(width + GAP for width, _ in labels.values())
    console.print(Text(table.title, style="table.title"))
    for part in _parts(widths, room):
        console.print(
            _part(labels, {headings[metric]: widths[metric] for metric in part}, _rows(table, part))
        )
    print(_legend(table, headings, console.width - 1), end="\n\n")


def _width(heading: str, results: Sequence[Record | None]) -> int:
    return max(
        len(text)
        for text in [
            *heading.split(),
            *(line for result in results for line in _cell_lines(result)),
        ]
    )


def _cell_lines(result: Record | None) -> tuple[str, ...]:
    """Return the lines of a cell: mean and n, the interval, the number of unscored values."""
    if result is None:
        return (mean_text(result),)
    unscored = f"{result['n_unscored']} unscored" if result["n_unscored"] else ""
    return (
        f"{mean_text(result):<5}  n={result['n']}",
        *(line for line in (interval_text(result), unscored) if line),
    )


def _labels(table: ResultTable, room: int) -> dict[str, tuple[int, list[str]]]:
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
    n_common = next(
        (
            at
            for at, (first, last) in enumerate(zip(min(long), max(long), strict=False))
            if first != last
        ),
        0,
    )
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


def _rows(table: ResultTable, part: Sequence[str]) -> list[list[tuple[str, ...]]]:
    return [[_cell_lines(run.get(metric)) for metric in part] for run in table.results]


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
    lines = [legend, " · ".join(renamed), more]
    filled = (
        textwrap.fill(line, width, initial_indent=" ", subsequent_indent=" ")
        for line in lines
        if line
    )
    return "\n".join(filled).replace("\u00a0", " ")
