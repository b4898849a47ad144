"""Finds the events of the tables `comparisons` and `history`, and states them in lines, grouped by checkpoint.

A publication may bring an event of a run that no night listed: an older checkpoint fills in, or a person releases a run. So a new
event is reported by whichever night comes next. A night that is killed between its publication and its messages leaves the record
as it was, and the next night reports.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from flows.night.reporting.messages import Event, Key, Line
from flows.site.links import address, comparison_page, history_page
from flows.text.comparison import moved_judge_text, sequence_text
from schemas.errors import ParleyError
from tasks.benchmarks.registry import BENCHMARKS
from tasks.storage.home import Home
from warehouse.comparison.decided import EQUIVALENT, SEQUENCE

PAIR_EVENTS: tuple[Event, ...] = ("regression", "judge_moved")
EVENTS: tuple[Event, ...] = (*PAIR_EVENTS, "trend", "change_point", "recovery")
"""Events of the tables, in the order of their messages."""
Row = Mapping[str, Any]
_PAIRS = """
    SELECT * FROM comparisons WHERE (run_id, other_run_id) IN
        (SELECT (run_id, other_run_id) FROM comparisons WHERE event IN ('regression', 'judge_moved'))
    ORDER BY model, revision, setting, run_id, other_run_id, against DESC, metric
"""
_SERIES = """
    SELECT *, count(*) FILTER (event = 'recovery') OVER (PARTITION BY family, series, metric) AS n_recoveries
    FROM history ORDER BY model, revision, setting, metric, position
"""


@dataclass(frozen=True)
class NightEvents:
    """All events of the published tables."""

    pairs: tuple[tuple[Row, ...], ...]
    """Rows of `comparisons` of each pair of runs with an event."""
    series: tuple[Row, ...]
    """Rows of `history` with an event."""

    @property
    def keys(self) -> frozenset[Key]:
        """What tells the events from each other."""
        of_pairs = (
            pair_key(row) for pair in self.pairs for row in pair if row["event"] in PAIR_EVENTS
        )
        return frozenset((*of_pairs, *map(series_key, self.series)))

    def lines(self, kind: Event, new: Collection[Key], site_url: str | None) -> tuple[Line, ...]:
        """Return a line for each checkpoint with a new event of a kind, by checkpoint and setting."""
        return (
            *_pair_lines(self.pairs, kind, new, site_url),
            *_series_lines(self.series, kind, new, site_url),
        )


def find_events(home: Home) -> NightEvents:
    """Return all events of the published tables; none where the warehouse compares no runs."""
    import duckdb

    from warehouse.connect import connect

    if not home.warehouse.exists():
        return NightEvents((), ())
    with connect(home.path) as warehouse:
        try:
            pairs, series = (_rows(warehouse, sql) for sql in (_PAIRS, _SERIES))
        except (duckdb.CatalogException, duckdb.BinderException):
            return NightEvents((), ())
    of_pair = groupby(pairs, key=lambda row: (row["run_id"], row["other_run_id"], row["against"]))
    return NightEvents(
        tuple(tuple(rows) for _, rows in of_pair), tuple(row for row in series if row["event"])
    )


def _rows(warehouse: Any, sql: str) -> list[dict[str, Any]]:
    found = warehouse.execute(sql)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def pair_key(row: Row) -> Key:
    """Return what tells an event of a pair from others."""
    return row["event"], row["run_id"], row["other_run_id"], row["metric"]


def series_key(row: Row) -> Key:
    """Return what tells an event of a series from others. A trend goes on from night to night, until the series recovers."""
    if row["event"] == "trend":
        return row["event"], row["family"], row["series"], row["metric"], str(row["n_recoveries"])
    return row["event"], row["run_id"], "", row["metric"]


def _pair_lines(
    pairs: Sequence[Sequence[Row]], kind: Event, new: Collection[Key], site_url: str | None
) -> Iterator[Line]:
    for pair in pairs:
        keys = tuple(pair_key(row) for row in pair if row["event"] == kind and pair_key(row) in new)
        if keys:
            yield Line(pair_text(pair, site_url), keys)


def pair_text(pair: Sequence[Row], site_url: str | None) -> str:
    """State in one line how a checkpoint stands beside another run: its main metric first, then what else moved."""
    main, *others = sorted(pair, key=_rank)
    parts = [
        f"{verdict(main)} on {_values(main)} (n = {main['n']}, {_shown_by(main)}) against {_name(main, 'other_')}"
    ]
    for word, event in (
        ("worse", "regression"),
        ("worse beside a moved judge", "judge_moved"),
        ("better", "improvement"),
    ):
        moved = [f"{_values(row)} ({_shown_by(row)})" for row in others if row["event"] == event]
        parts += [f"also {word}: {', '.join(moved)}"] if moved else []
    parts.append(f"run {main['run_id'][:12]}")
    judged = moved_judge_text(main["judge_n"], main["judge_n_changed"])
    page = comparison_page(main["other_run_id"], main["run_id"])
    link = (
        address(site_url, page)
        if site_url
        else f"parley compare {main['other_run_id'][:12]} {main['run_id'][:12]}"
    )
    return f"{_name(main)} · {main['setting']}: {'; '.join(parts)}{judged}; {link}"


def verdict(row: Row) -> str:
    """Return `better`, `worse`, `equal` or `undecided`: what a pair says of one metric.

    A decision says it where there is one. Else a pair is equal where the 95% interval of the difference lies within the
    threshold, or no problem has another score.
    """
    named = {
        "regression": "worse",
        "improvement": "better",
        "judge_moved": "undecided (the judge moved)",
    }
    if row["event"] in named:
        return named[row["event"]]
    if row["interval_kind"] == SEQUENCE:
        return "equal" if row["decision"] == EQUIVALENT else row["decision"]
    if row["interval_kind"] is None:  # a run stopped early, and not by this metric
        return "undecided"
    if row["ci_low"] is None:
        return (
            "equal"
            if row["difference"] == 0 and row["mde"] is None and row["n_problems"] > 1
            else "undecided"
        )
    return (
        "equal" if max(abs(row["ci_low"]), abs(row["ci_high"])) <= row["threshold"] else "undecided"
    )


def _shown_by(row: Row) -> str:
    """Return what a verdict rests on: the sequence that decided the pair, or the q-value of its test."""
    if row["interval_kind"] == SEQUENCE:
        return f"decided, {sequence_text(row)}"
    q_value = row["night_q"] if row["night_q"] is not None else row["q_value"]
    return "q = –" if q_value is None else f"q = {q_value:.2g}"


def _values(row: Row) -> str:
    old, new = (
        "–" if value is None else f"{value:.3f}" for value in (row["other_mean"], row["mean"])
    )
    return f"{row['metric']} {old} → {new}"


def _name(row: Row, prefix: str = "") -> str:
    """Return the model's name; where both runs have it in common, with the revision."""
    model, revision = row[f"{prefix}model"], row[f"{prefix}revision"]
    return f"{model}@{revision[:12]}" if revision and row["model"] == row["other_model"] else model


def _rank(row: Row) -> tuple[int, str]:
    """Return the place of a metric in its benchmark's order: the headline first."""
    try:
        metrics = BENCHMARKS.load(row["benchmark"]).metrics_of(row["setting"].partition(".")[2])
    except (ParleyError, KeyError):  # a benchmark that is not installed here
        metrics = ()
    return (metrics.index(row["metric"]) if row["metric"] in metrics else len(metrics)), row[
        "metric"
    ]


def _series_lines(
    rows: Sequence[Row], kind: Event, new: Collection[Key], site_url: str | None
) -> Iterator[Line]:
    for row in rows:
        key = series_key(row)
        if row["event"] == kind and key in new:
            yield Line(_series_text(row, site_url), (key,))


def _series_text(row: Row, site_url: str | None) -> str:
    levels = f"{row['event_before']:.3f} → {row['event_after']:.3f}"
    q_value = row["trend_night_q"] if row["event"] == "trend" else row["change_night_q"]
    said = {
        "trend": f"{row['family']} loses steadily on {row['metric']}: {levels} over {row['n_points']} checkpoints"
        f" ({row['trend_slope'] or 0.0:+.4f} each)",
        "change_point": f"{row['family']} is worse on {row['metric']} from this checkpoint on: {levels}",
        "judge_moved": f"{row['family']} seems worse on {row['metric']} since the judge moved: {levels}",
        "recovery": f"{row['family']} is back on {row['metric']}: {levels}",
    }[row["event"]]
    test = "" if row["event"] == "recovery" or q_value is None else f", q = {q_value:.2g}"
    page = f"; {address(site_url, history_page(row['family']))}" if site_url else ""
    return f"{row['model']} · {row['setting']}: {said} (n = {row['n']}{test}); run {row['run_id'][:12]}{page}"


def summary_lines(rows: Sequence[Row], site_url: str | None) -> tuple[Line, ...]:
    """Return a line for each pair of a checkpoint and its predecessor, whatever it says.

    Args:
        rows: rows of `comparisons` of a night's runs.
    """
    ordered = sorted(
        (row for row in rows if row["against"] == "predecessor"),
        key=lambda row: (
            row["model"],
            row["revision"],
            row["setting"],
            row["run_id"],
            row["other_run_id"],
        ),
    )
    groups = groupby(ordered, key=lambda row: (row["run_id"], row["other_run_id"]))
    return tuple(Line(pair_text(cast("list[Row]", list(pair)), site_url)) for _, pair in groups)
