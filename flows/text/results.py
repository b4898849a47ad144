"""Result tables, for the terminal and in markdown: a mean never stands without its n, its n_unscored and its interval."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from flows.text.settings import has_many_settings, settings_table
from flows.text.work import work_lines
from schemas.display import markdown_cell, plain_line
from tasks.benchmarks import registry
from tasks.planning.report import RunReport
from tasks.storage.home import Home

_COLUMNS = ("benchmark", "data", "model", "metric", "mean", "95% interval", "n", "n_unscored", "sandbox")


def _records(home: Home, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    from warehouse.connect import named_query

    if not run_ids or not home.warehouse.exists():
        return []
    columns, found = named_query(home.path, "result_table", run_ids=list(run_ids))
    records = [dict(zip(columns, row, strict=True)) for row in found]
    records.sort(key=lambda r: (run_ids.index(r["run_id"]), _metric_order(r["benchmark"]).index(r["metric"])))
    return records


def _metric_order(benchmark: str) -> tuple[str, ...]:
    return registry.load(benchmark).scores.metrics


def _row(values: dict[str, Any]) -> tuple[Any, ...]:
    low, high = values["ci_low"], values["ci_high"]
    return (
        values["setting"],
        values["dataset_version"],
        values["model"],
        values["metric"],
        "–" if values["mean"] is None else f"{values['mean']:.3f}",
        "–" if low is None else f"{low:.3f} … {high:.3f}",
        values["n"],
        values["n_unscored"],
        values["sandbox"] if values["isolated"] else f"{values['sandbox']} (NOT ISOLATED)",
    )


def result_markdown(home: Home, run_ids: Sequence[str]) -> str:
    """The result table of some runs as markdown; all cells are data."""
    rows = [_row(record) for record in _records(home, run_ids)]
    if not rows:
        return "No run of this night is published."
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + " --- |" * len(_COLUMNS)]
    lines += ["| " + " | ".join(markdown_cell(str(cell)) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def print_results(home: Home, reports: Sequence[RunReport], *, next_steps: bool = False) -> None:
    """Print what was done, the result table, and where the results lie."""
    for report in reports:
        if report.run_id:
            print(_summary(report))
        if report.work:
            for line in work_lines(report.work):
                print(f"  {line}")
    print_result_rows(home, [report.run_id for report in reports if report.is_published])
    if home.warehouse.exists():
        print(f"Warehouse: {home.warehouse}")
    if next_steps:
        print("Next:")
        for command in _next_commands(reports):
            print(f"  {command}")


def print_result_rows(home: Home, run_ids: Sequence[str]) -> None:
    """Print the results of some runs, if the warehouse shows any."""
    records = _records(home, run_ids)
    for benchmark in dict.fromkeys(record["benchmark"] for record in records):
        _print_benchmark([record for record in records if record["benchmark"] == benchmark])


def _print_benchmark(records: Sequence[dict[str, Any]]) -> None:
    title, columns, rows = _without_constants([_row(record) for record in records])
    if has_many_settings(records):
        columns, rows = settings_table(records)
        title = title.replace("Results", f"Results · benchmark {records[0]['benchmark']}", 1)
    print_rows(title, columns, rows)


def _without_constants(rows: Sequence[Sequence[Any]]) -> tuple[str, tuple[str, ...], Sequence[Sequence[Any]]]:
    """Title, columns and rows: what is the same in every row stands in the title, so that the table fits a terminal."""
    names = [at for at, column in enumerate(_COLUMNS) if column in ("benchmark", "data", "sandbox")]
    constant = [at for at in names if len({row[at] for row in rows}) == 1]
    title = "Results · " + " · ".join(f"{_COLUMNS[at]} {rows[0][at]}" for at in constant)
    kept = [at for at in range(len(_COLUMNS)) if at not in constant]
    return title.rstrip(" ·"), tuple(_COLUMNS[at] for at in kept), [tuple(row[at] for at in kept) for row in rows]


def _summary(report: RunReport) -> str:
    parts = [f"{plain_line(report.title)}: {report.status}, {report.episodes} episodes, {report.model_calls} model calls"]
    parts += [
        f"{n} {name}" for n, name in ((report.owed, "owed"), (report.n_infra, "infra"), (report.n_unscored, "unscored")) if n
    ]
    parts += [f"{report.n_quarantined} rows of the data in quarantine"] if report.n_quarantined else []
    parts += [f"{report.n_truncated} answers cut off at max_tokens"] if report.n_truncated else []
    parts += [f"{report.n_tampered} tests tampered with (reason = 'tampering' in test_verdicts)"] if report.n_tampered else []
    return ", ".join(parts) + f" (run {report.run_id[:12]})"


def _next_commands(reports: Sequence[RunReport]) -> tuple[str, ...]:
    first = next((report for report in reports if report.run_id), None)
    run, setting = (first.run_id[:12], first.setting) if first else ("RUN", "BENCHMARK.SETTING")
    parley = "parley" if shutil.which("parley") else shlex.quote(os.path.relpath(sys.argv[0]))
    return (
        f'{parley} show "$({parley} list episodes --run {run} --first)"',
        f'{parley} sql "SELECT model, turn, instruction_id, outcome FROM test_verdicts"',
        f"{parley} run {shlex.quote(setting)} --dataset-version sample --model openai:MODEL@http://127.0.0.1:8000/v1",
    )


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; where it is wider than the terminal, one row below the other. In a pipe or a log nothing is folded."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(columns), *cells]) for at in range(len(columns))]
    width = sum(widths) + 4 * len(widths)
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(width, 80))
    elif width > console.width and any(len(cell) > 24 for line in cells for cell in line):
        _print_records(title, columns, cells)
        return
    table = Table(title=Text(title, style="table.title") if title else None, box=box.SIMPLE_HEAD, title_justify="left")
    for at, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[at], (int, float)) or row[at] is None for row in rows)
        table.add_column(Text(plain_line(column)), overflow="fold", justify="right" if numeric else "left")
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else plain_line(str(value), 500)


def _print_records(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    margin = max(len(column) for column in columns)
    if title:
        print(title)
    for number, line in enumerate(cells, 1):
        print(f"── {number} " + "─" * 40)
        for column, cell in zip(columns, line, strict=True):
            print(f"{column:>{margin}}  {cell}")
