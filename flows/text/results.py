"""Results of a night and its reused and paid work, as text for the terminal and as Markdown."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flows.text.comparison import decision_lines, decision_markdown, event_text
from flows.text.records import published_records
from flows.text.result_table import GAP, fitted_widths, most_lines, piped_width
from schemas.outside.display import plain_line
from tasks.storage.home import Home

if TYPE_CHECKING:
    from tasks.planning.reporting.report import RunReport


def _records(home: Home, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    records = published_records(home, "result_table", run_ids)
    return sorted(records, key=lambda record: run_ids.index(record["run_id"]))


_IN_JSON = ("metric", "mean", "ci_low", "ci_high", "n", "n_unscored", "n_not_applicable")


def json_results(home: Home, run_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return a map from run to one object for each metric, with the columns of `leaderboard`.

    A run that is not published is not in the map.
    """
    by_run: dict[str, list[dict[str, Any]]] = {}
    for record in _records(home, run_ids):
        by_run.setdefault(record["run_id"], []).append({name: record[name] for name in _IN_JSON})
    return by_run


def result_markdown(home: Home, run_ids: Sequence[str]) -> str:
    """Return the results of runs as Markdown tables, one for each benchmark."""
    from flows.text.result_table import result_markdown_table, result_tables

    records = _records(home, run_ids)
    tables = [
        *map(result_markdown_table, result_tables(records)),
        *_released_lines(records),
        *decision_markdown(home, run_ids),
    ]
    return "\n\n".join(tables) or "No run of this night is published."


def compared_rows(home: Home, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of the table `comparisons` about the runs.

    Comparisons with predecessors come first, then those with baselines.
    """
    return published_records(home, "comparisons_of_runs", run_ids)


def _released_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each released run, with the reason."""
    released = {
        record["run_id"]: record for record in records if record["released_because"] is not None
    }
    return [
        f"Withheld, then released: {plain_line(record['model'])} on {record['setting']} (run"
        f" {run_id[:12]}),"
        f" because: {plain_line(record['released_because'], 300)}"
        for run_id, record in released.items()
    ]


def print_results(home: Home, reports: Sequence["RunReport"], *, next_steps: bool = False) -> None:
    """Print each run's work, the result table, and the path of the warehouse."""
    from flows.text.work import audit_line, work_lines

    for report in reports:
        if report.run_id:
            print(_summary(report))
        if audited := audit_line(report.audit):
            print(f"  {audited}")
        if report.work:
            for line in work_lines(report.work):
                print(f"  {line}")
    published = [report.run_id for report in reports if report.is_published]
    print_result_rows(home, published)
    _print_events(compared_rows(home, published))
    if home.warehouse.exists():
        print(f"Warehouse: {home.warehouse}")
    if next_steps:
        print("Next:")
        for command in _next_commands(reports):
            print(f"  {command}")


def print_result_rows(home: Home, run_ids: Sequence[str]) -> None:
    """Print the results of runs, if the warehouse holds any."""
    from flows.text.result_table import print_table, result_tables

    records = _records(home, run_ids)
    for table in result_tables(records):
        print_table(table)
    for line in (*_released_lines(records), *decision_lines(home, run_ids)):
        print(line)


def _print_events(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        if row["event"]:
            pair = f"{row['setting']} · {row['model']} against its {row['against']}"
            print(plain_line(f"{pair}, {event_text(row)}", 500))


WARN_FROM_SHARE = 0.05
"""Minimum share of empty answers for which the summary of a run contains a warning."""


def _summary(report: "RunReport") -> str:
    n_paid = report.work.n_paid if report.work else report.model_calls
    parts = [
        f"{plain_line(report.title)}: {report.status}, {report.episodes} episodes, {n_paid} model"
        " calls"
    ]
    parts += [
        f"{n} {name}"
        for n, name in (
            (report.pending, "pending"),
            (report.n_infra, "infra"),
            (report.n_unscored, "unscored"),
            (report.n_drift_calls, "requests to measure judge drift"),
            (report.n_quarantined, "data rows in quarantine"),
            (report.n_truncated, "answers cut off at max_tokens"),
            (report.n_refused, "refused"),
            (report.n_empty, "empty answers"),
            (report.n_cut_off, "of them cut off while thinking"),
            (report.n_unreadable, "answers without a readable program"),
        )
        if n
    ]
    if report.n_empty >= WARN_FROM_SHARE * report.n_answers > 0:
        parts.append(f"WARNING: {report.n_empty / report.n_answers:.0%} of the answers are empty")
    parts += [
        f"requests to the {role}'s endpoint adapted: {changes}" for role, changes in report.adapted
    ]
    if report.n_tampered:
        parts.append(
            f"{report.n_tampered} tests tampered with (reason = 'tampering' in test_verdicts)"
        )
    return ", ".join(parts) + f" (run {report.run_id[:12]})"


def _next_commands(reports: Sequence["RunReport"]) -> tuple[str, ...]:
    first = next(
        (report for report in reports if report.run_id and report.status != "failed"), None
    )
    run, setting = (first.run_id[:12], first.setting) if first else ("RUN", "BENCHMARK.SETTING")
    parley = "parley" if shutil.which("parley") else shlex.quote(os.path.relpath(sys.argv[0]))
    return (
        f'{parley} show "$({parley} list episodes --run {run} --first)"',
        f'{parley} sql "SELECT model, turn, instruction_id, outcome FROM test_verdicts"',
        f"{parley} run {shlex.quote(setting)} --dataset-version sample --model"
        " openai:MODEL@http://127.0.0.1:8000/v1",
    )


_MOST_LINES, _LONG = 4, 24
"""Maximum lines of a row on a terminal, and length from which a cell is printed as a block."""


def print_rows(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    pager: bool = False,
    unfolded: bool = False,
) -> None:
    """Print a table.

    If the table is wider than the terminal, texts are folded. If rows become tall, each row is
    printed as a block of lines. In a pipe or a log, a line has 80 characters (or COLUMNS): the
    widest texts are folded, numbers never are.

    Args:
        title: line above the table.
        columns: heads of the columns.
        rows: values of the cells.
        pager: show output that is taller than the terminal with `$PAGER`, or with less.
        unfolded: in a pipe or a log, make the table as wide as its content.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[_cell(value) for value in row] for row in rows]
    heads = [plain_line(column) for column in columns]
    numeric = [_is_numeric([row[at] for row in rows]) for at in range(len(columns))]
    width = 1 + sum(
        max(len(line[at]) for line in [heads, *cells]) + GAP for at in range(len(columns))
    )
    widths: Sequence[int | None] = [None] * len(columns)
    console = Console()
    if not console.is_terminal:
        room = piped_width()
        fitted = None if unfolded else fitted_widths(heads, cells, numeric, room - 1)
        widths = fitted or widths
        console = Console(width=room if fitted else max(width, room))
    elif width > console.width:
        fitted = fitted_widths(heads, cells, numeric, console.width - 1)
        is_tall = fitted is None or most_lines(cells, fitted) > _MOST_LINES
        if is_tall and any(len(cell) > _LONG for line in cells for cell in line):
            _print_text(
                "\n".join(_record_lines(title, columns, cells)), console.height if pager else None
            )
            return
        widths = fitted or widths
    table = Table(
        title=Text(title, style="table.title") if title else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        padding=(0, GAP - 1, 0, 0),
    )
    for head, is_number, wide in zip(heads, numeric, widths, strict=True):
        table.add_column(
            Text(head), overflow="fold", justify="right" if is_number else "left", width=wide
        )
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))
    with console.capture() as output:
        console.print(table)
    _print_text(
        output.get().rstrip("\n"), console.height if pager and console.is_terminal else None
    )


def _is_numeric(values: Sequence[Any]) -> bool:
    return bool(values) and all(
        isinstance(value, (int, float)) or value is None for value in values
    )


def _print_text(text: str, height: int | None) -> None:
    """Print a text.

    A text taller than the terminal goes to `$PAGER`, or else to less, if installed.
    """
    pager = os.environ.get("PAGER", "").strip() or shutil.which("less")
    is_tall = height is not None and text.count("\n") >= height
    if not (is_tall and pager and _paged(shlex.split(pager), text)):
        print(text)


def _paged(command: Sequence[str], text: str) -> bool:
    """Show a text in a pager, and return True if that worked. Ctrl-C ends the pager, too."""
    settings = {"LESS": "-RSF", **os.environ}  # keep colours, chop long lines
    sys.stdout.flush()
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, encoding="utf-8", env=settings
        )
    except OSError:
        return False
    try:
        process.communicate(text + "\n")
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    return True


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else plain_line(str(value), 500)


def _record_lines(
    title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]
) -> Iterator[str]:
    margin = max(len(column) for column in columns)
    if title:
        yield title
    for number, line in enumerate(cells, 1):
        yield f"── {number} " + "─" * 40
        for column, cell in zip(columns, line, strict=True):
            yield f"{column:>{margin}}  {cell}"
