"""Rows of query results as records, and as tables on a terminal and in Markdown."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from schemas.outside.display import markdown_cell, plain_line
from tasks.storage.home import Home


def as_records(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return each row as a map from column to value."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def published_records(home: Home, query: str, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the records of a named query about runs.

    There are none without runs, or if nothing was ever published.
    """
    from warehouse.connect import named_query

    if not run_ids or not home.warehouse.exists():
        return []
    return as_records(*named_query(home.path, query, run_ids=list(run_ids)))


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int = 120) -> str:
    """Return a Markdown table. All cells are escaped, and cut to `width` characters."""
    lines = [
        "| " + " | ".join(markdown_cell(cell, width) for cell in row) + " |"
        for row in (columns, *rows)
    ]
    return "\n".join([lines[0], "|" + " --- |" * len(columns), *lines[1:]])


WIDTH = 80
"""Number of characters of a line in a pipe or a log, unless COLUMNS is set."""
GAP = 2
_ORDINARY = 24
"""Maximum characters of an ordinary word. Longer words, such as ids, may be broken."""
_SHORTEST = (
    (True, _ORDINARY, 12),
    (False, _ORDINARY, 12),
    (False, _ORDINARY, 8),
    (True, 0, 12),
    (True, 0, 8),
    (False, 0, 12),
    (False, 0, 8),
)
"""Layouts in the order in which they are tried.

A layout is (whether names stay on one line, longest word that is not broken, minimum width of a
text column).
"""


def piped_width() -> int:
    """Return the width of lines in a pipe or a log: COLUMNS, or else 80."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else WIDTH


def fitted_widths(
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    room: int,
    *,
    breaks_words: bool = True,
) -> list[int] | None:
    """Return column widths with which the table fits.

    If it cannot fit, return None, or without `breaks_words` the widths of the narrowest table.

    Columns start as wide as their content. The widest text columns are narrowed until all fit.

    Args:
        heads: names of the columns, which can break between words.
        cells: texts by row. The first cell of a row is a name, which is folded last.
        numeric: for each column, whether it holds numbers, which are never folded.
        room: characters of a line.
        breaks_words: also fold within words of at most 80 characters, long ones first.
    """
    words = [max(map(len, head.split()), default=1) for head in heads]
    longest = [max((len(line[at]) for line in cells), default=1) for at in range(len(heads))]
    for names_stay_whole, ordinary, shortest in _SHORTEST:
        whole = [is_number or (names_stay_whole and not at) for at, is_number in enumerate(numeric)]
        most = ordinary if breaks_words else WIDTH
        unbroken = [_longest_word([line[at] for line in cells], most) for at in range(len(heads))]
        least = [
            max(words[at], n if whole[at] else max(unbroken[at], min(n, shortest)))
            for at, n in enumerate(longest)
        ]
        if not (ordinary or breaks_words):
            return [max(least[at], min(n, _ORDINARY)) for at, n in enumerate(longest)]
        if sum(least) + GAP * len(least) > room:
            continue
        widths = [max(word, n) for word, n in zip(words, longest, strict=True)]
        while sum(widths) + GAP * len(widths) > room:
            widest = max(
                (at for at, width in enumerate(widths) if width > least[at]),
                key=lambda at: widths[at],
            )
            widths[widest] -= 1
        # Widen columns whose head would break, while there is room.
        for at, head in enumerate(heads):
            widths[at] += min(
                max(0, len(head) - widths[at]), room - sum(widths) - GAP * len(widths)
            )
        return widths
    return None


def _longest_word(texts: Iterable[str], most: int) -> int:
    """Return the length of the longest word among words of at most `most` characters."""
    return max(
        (len(word) for text in texts for word in text.split() if len(word) <= most), default=0
    )


def most_lines(cells: Iterable[Sequence[str]], widths: Sequence[int]) -> int:
    """Return a lower bound of the lines of the tallest row if cells are folded to these widths."""
    pairs = (pair for line in cells for pair in zip(line, widths, strict=True))
    return max((-(-len(cell) // width) for cell, width in pairs), default=0)


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
    widest texts are folded between words. If a word such as a model's name would break then, where
    nobody could search for it, the table is wider.

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
        if not unfolded:
            widths = fitted_widths(heads, cells, numeric, room - 1, breaks_words=False) or widths
            width = 1 + sum(wide + GAP for wide in widths if wide)
        console = Console(width=max(width, room))
    elif width > console.width:
        fitted = fitted_widths(heads, cells, numeric, console.width - 1)
        has_long = any(len(cell) > _LONG for line in cells for cell in line)
        if fitted is None or (has_long and most_lines(cells, fitted) > _MOST_LINES):
            _print_text(
                "\n".join(_record_lines(title, columns, cells)), console.height if pager else None
            )
            return
        widths = fitted
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
