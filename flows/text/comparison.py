"""Comparisons of runs, early decisions, and agreement of people and judges, as text."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.text.records import markdown_table, print_rows, published_records
from flows.text.result_table import distinct_names
from schemas.grouping import grouped
from schemas.night.decision import SEQUENCE
from schemas.outside.display import markdown_cell, plain_line
from tasks.metrics.registry import heading_of
from tasks.storage.home import Home

_WIDTH = 80
_NAME = 21
_COLUMNS = ("metric", "old", "new", "diff", "95% interval", "q", "MDE", "n")
_WIDTHS = (_NAME, 6, 6, 7, 15, 6, 6, 5)
LEGEND = (
    "Paired by problem. n: number of problems. diff: new minus old. q: p-value (McNemar, or"
    " Wilcoxon's signed-rank test over problems), adjusted over the metrics by"
    " Benjamini-Hochberg. MDE: minimal detectable effect, the true difference that such a pair"
    " detects with 80% power."
)
Row = Mapping[str, Any]


def print_comparisons(rows: Sequence[Row]) -> None:
    """Print rows of the table `comparisons`, one table for each pair of runs."""
    for pair in grouped(((row["run_id"], row["other_run_id"]), row) for row in rows).values():
        print("\n".join(_lines(pair)), end="\n\n")
    if rows:
        print(textwrap.fill(LEGEND, _WIDTH))


def _lines(pair: Sequence[Row]) -> Iterator[str]:
    first = pair[0]
    yield from _fill(f"Benchmark {first['setting']} · data {first['dataset_version']}")
    yield from _fill(f"old: {_called(first, 'other_')}")
    yield from _fill(f"new: {_called(first)}")
    yield ""
    yield _line(_COLUMNS)
    yield _line(["─" * width for width in _WIDTHS])
    names = distinct_names([row["metric"] for row in pair], _NAME)
    for name, row in zip(names, pair, strict=True):
        yield _line((name, *_cells(row)))
    for note in notes(pair):
        yield from _fill(note)


def _called(row: Row, prefix: str = "") -> str:
    revision = f" @ {row[prefix + 'revision']}" if row[prefix + "revision"] else ""
    return plain_line(f"{row[prefix + 'model']}{revision} (run {row[prefix + 'run_id'][:12]})", 300)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        *(_number(row[name]) for name in ("other_mean", "mean")),
        "–" if row["difference"] is None else f"{row['difference']:+.3f}",
        _interval(row),
        *(_number(row[name]) for name in ("q_value", "mde")),
        str(row["n_problems"]),
    )


def _interval(row: Row) -> str:
    return "" if row["ci_low"] is None else f"{row['ci_low']:+.3f}…{row['ci_high']:+.3f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _line(cells: Sequence[str]) -> str:
    name, *others = (plain_line(cell, width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return " " + " ".join(
        [
            f"{name:<{_NAME}}",
            *(f"{cell:>{width}}" for cell, width in zip(others, _WIDTHS[1:], strict=True)),
        ]
    )


def _fill(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH - 1, initial_indent=" ", subsequent_indent="   ", break_on_hyphens=False
    ) or [""]


def notes(pair: Sequence[Row]) -> Iterator[str]:
    """Yield notes on a pair: events, decisions, missing scores, other differences, judge drift."""
    yield from map(event_text, (row for row in pair if row["event"]))
    yield from map(decided_text, (row for row in pair if row["decision"]))
    for reason in dict.fromkeys(
        row["undefined_because"] for row in pair if row["undefined_because"]
    ):
        metrics = (row["metric"] for row in pair if row["undefined_because"] == reason)
        yield f"{', '.join(metrics)}: {reason}"
    unpaired = [row for row in pair if row["n_unpaired"] or row["n_unpaired_other"]]
    if unpaired:
        counts = ", ".join(
            f"{row['metric']} {row['n_unpaired_other']} old and {row['n_unpaired']} new"
            for row in unpaired
        )
        yield f"problems left out because only one run has a score: {counts}"
    first = pair[0]
    if first["also_differs"]:
        yield f"the runs also differ in {', '.join(first['also_differs'])} (parley why-rerun)"
    if first["judge_n"] is not None:
        yield judge_text(first)


def event_text(row: Row) -> str:
    """Return an event of a pair in one line, with its evidence.

    The evidence is a q-value over the night or the pair, or a confidence sequence.
    """
    q_value = row["q_value"] if row.get("night_q") is None else row["night_q"]
    evidence = sequence_text(row) or f"q = {q_value:.3g}"
    means = f"{row['metric']} {row['other_mean']:.3f} -> {row['mean']:.3f}"
    facts = f"{row['difference']:+.3f}; threshold {row['threshold']:g}, {evidence}"
    drift = judge_drift_text(row["judge_n"], row["judge_n_changed"])
    return f"{row['event']}: {means} ({facts}){drift}"


def sequence_text(row: Row) -> str:
    """Return the confidence sequence of a pair that was decided early, else an empty text."""
    return f"confidence sequence {_interval(row)}" if row["interval_kind"] == SEQUENCE else ""


def decided_text(row: Row) -> str:
    """Return a line about the early decision on a pair, and about how to read the other numbers."""
    if row["interval_kind"] != SEQUENCE:
        return (
            f"no early decision by {row['metric']}: all tasks were played, so interval and test"
            " are the usual ones"
        )
    return (
        f"decided early by {row['metric']}: {row['decision']}, {sequence_text(row)} over all tasks,"
        " without a test (parley help decide)"
    )


def judge_drift_text(n: int | None, n_changed: int | None) -> str:
    """Return a remark on judge drift to append to the line of an event; empty without drift.

    Args:
        n: number of bundled cases (fixed inputs of judges) that were rated in both runs' nights.
        n_changed: number of these cases whose ratings differ between the nights.
    """
    return f"; the judge also drifted: {n_changed} of {n} ratings changed" if n_changed else ""


def judge_text(row: Row) -> str:
    """Return how far the judges drifted between the nights of the two runs."""
    shift = (
        "" if row["judge_mean_shift"] is None else f", mean shift {row['judge_mean_shift']:+.3g}"
    )
    return (
        f"judge drift: {row['judge_n_changed']} of {row['judge_n']} bundled cases were rated"
        f" differently{shift}"
    )


def comparison_markdown(rows: Sequence[Row]) -> str:
    """Return comparisons as one Markdown table. All cells are escaped."""
    if not rows:
        return ""
    columns = (
        *("run", "against", "metric", "old", "new", "difference", "95% interval", "q", "MDE"),
        *("event", "judge drift"),
    )
    lines: list[tuple[str, ...]] = []
    for row in rows:
        old, new, difference, interval, *others, _ = _cells(row)
        lines.append(
            (
                f"{row['setting']} · {row['model']}",
                f"{row['against']} {row['other_model']}",
                heading_of(row["metric"]),
                *(old, new, difference, sequence_text(row) or interval, *others),
                row["event"] or "",
                _drift_cell(row),
            )
        )
    return markdown_table(columns, lines)


def _drift_cell(row: Row) -> str:
    """Return how many bundled cases the judges rated differently in the two runs' nights.

    Return a dash if the runs have no judge.
    """
    if row["judge_n"] is None:
        return "–"
    shift = "" if row["judge_mean_shift"] is None else f" ({row['judge_mean_shift']:+.3g})"
    return f"{row['judge_n_changed']} of {row['judge_n']}{shift}"


def print_agreement(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of the query `agreement`."""
    heads = ("rubric", "raters", "n", "missing", "episodes", "equal", "kappa", "weighted kappa")
    fields = ("n", "n_missing", "n_episodes", "share_equal")
    cells = [
        (
            f"{row['rubric']}: {row['dimension']}",
            f"{row['first']} and {row['second']}",
            *(row[name] for name in fields),
            _kappa(row, "kappa", "kappa"),
            _kappa(row, "weighted_kappa", "weighted"),
        )
        for row in rows
    ]
    print_rows("", heads, cells)


def _kappa(row: Mapping[str, Any], name: str, reason: str) -> str:
    """Return a kappa with its 95% interval, or the reason why it is undefined."""
    if row[name] is None:
        return row[f"{reason}_undefined_because"] or ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.2f}" + ("" if low is None else f" {low:.2f}…{high:.2f}")


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
