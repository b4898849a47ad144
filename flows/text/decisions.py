"""Early decisions of runs as text and drawings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.text.records import published_records
from schemas.outside.display import markdown_cell, plain_line
from tasks.storage.home import Home

_WORDS = {"better": "is better than", "worse": "is worse than", "equivalent": "is equivalent to"}
_MOST_LINES, _BAR = 8, 41
"""Maximum number of lines of a drawing, and their width in characters."""


def decision_lines(home: Home, run_ids: Sequence[str]) -> list[str]:
    """Return a line for each metric by which one of the runs was decided early."""
    return [decision_line(row) for row in published_records(home, "decisions_of_runs", run_ids)]


def decision_line(row: Mapping[str, Any]) -> str:
    """Return a decision in one line, with its evidence and the interval of the difference."""
    relation = _WORDS.get(row["decision"] or "", "is undecided against")
    left_out = (
        f", without {row['n_left_out']} tasks that the baseline lacks" if row["n_left_out"] else ""
    )
    saved = f"; about {row['saved_calls']:.0f} calls avoided" if row["saved_calls"] else ""
    night: dict[bool | None, str] = {
        True: "; still significant among all decisions of the night (e-BH)",
        False: "; not significant among all decisions of the night (e-BH)",
    }
    return plain_line(
        f"Decided: {row['model']} {relation} {row['baseline_model']} on {row['setting']} by"
        f" {row['metric']} after {row['n_asked']} of"
        f" {row['n_total']} tasks{left_out}: difference {_signed(row['mean_difference'])} on"
        " these, confidence sequence"
        f" {_signed(row['low'])}…{_signed(row['high'])} over all (alpha {row['alpha']:g}, margin"
        f" {row['margin']:g}){saved}"
        f"{night.get(row.get('is_night_wide'), '')}",
        500,
    )


def decision_markdown(home: Home, run_ids: Sequence[str]) -> list[str]:
    """Return the decisions of the runs as Markdown: a line, and a drawing of the interval."""
    blocks: list[str] = []
    for row in published_records(home, "decisions_of_runs", run_ids):
        block = markdown_cell(decision_line(row), 500)
        if row["sequence"]:
            drawing = "\n".join(narrowing_lines(row["sequence"]))
            block += f"\n\n```text\n{drawing}\n```"
        blocks.append(block)
    return blocks


def narrowing_lines(points: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines that draw how the interval of the difference narrowed. `|` marks 0.

    Args:
        points: rows of `decisions.sequence`. At most `_MOST_LINES` of them are drawn.
    """
    n_lines = min(_MOST_LINES, len(points))
    chosen = [points[(len(points) - 1) * at // max(1, n_lines - 1)] for at in range(n_lines)]
    low, high = min(0.0, *(p["low"] for p in chosen)), max(0.0, *(p["high"] for p in chosen))

    def place(value: float) -> int:
        return round((value - low) / ((high - low) or 1) * (_BAR - 1))

    yield f"{'tasks':>6}  {'confidence sequence':>19}  of the difference, | marks 0"
    for point in chosen:
        bar = [
            "─" if place(point["low"]) <= at <= place(point["high"]) else " " for at in range(_BAR)
        ]
        bar[place(0.0)] = (
            "┼" if bar[place(0.0)] == "─" and point["low"] <= 0 <= point["high"] else "|"
        )
        interval = f"{_signed(point['low'])}…{_signed(point['high'])}"
        yield f"{point['n']:>6}  {interval:>19}  {''.join(bar).rstrip()}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"
