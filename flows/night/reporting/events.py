"""Events of a night, messages about them, and the record of delivered ones.

The tables `comparisons` and `history` contain events. A publication outside a night can also create
an event, for example if a person releases a run or adds an older checkpoint. The next night reports
the event. If a night is killed after its publication and before its notifications, the next night
reports its events.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, cast

from flows.site.pages import address, comparison_page, history_page
from flows.text.comparison import judge_drift_text, sequence_text
from schemas.base import Frozen
from schemas.errors import ParleyError
from schemas.night.decision import SEQUENCE
from schemas.outside.display import plain_line
from tasks.benchmarks.registry import BENCHMARKS
from tasks.storage.home import Home
from tasks.storage.new_folder import replace_file
from warehouse.comparison.decisions import EQUIVALENT

MESSAGE_LENGTH = 4000
"""Maximum characters of a message. Chat services cut or reject longer ones."""
LINE_LENGTH = 1500
"""Maximum characters of a line, so that no single line fills a message."""
Event = Literal[
    "failure",
    "withheld",
    "budget",
    "regression",
    "judge_moved",
    "trend",
    "change_point",
    "recovery",
    "summary",
]
Key = tuple[str, ...]
"""Key that identifies one reported event."""


class Message(Frozen):
    """One notification with its event, title and text."""

    event: Event
    title: str
    text: str


@dataclass(frozen=True)
class Line:
    """Line of a message, with the keys of the events that it reports."""

    text: str
    keys: tuple[Key, ...] = ()


def packed(
    event: Event, title: str, lines: Sequence[Line]
) -> Iterator[tuple[Message, tuple[Key, ...]]]:
    """Yield messages that contain all lines, each with the keys of its lines. No line is split."""
    parts: list[list[Line]] = []
    room = 0
    for line in lines:
        cut = Line(plain_line(line.text, LINE_LENGTH), line.keys)
        if len(cut.text) >= room:
            parts.append([])
            room = MESSAGE_LENGTH
        parts[-1].append(cut)
        room -= len(cut.text) + 1
    for number, part in enumerate(parts, start=1):
        of_all = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
        text = "\n".join(line.text for line in part)
        yield (
            Message(event=event, title=f"Parley: {plain_line(title, 200)}{of_all}", text=text),
            tuple(key for line in part for key in line.keys),
        )


class DeliveredKeys:
    """Record of the keys that were reported to one set of destinations.

    Args:
        home: Parley's data folder.
        name: Kind of the keys: `events` or `failures`.
        addressee: Digest of the set of destinations. Each set has its own record.
    """

    def __init__(self, home: Home, name: str, addressee: str) -> None:
        self._file = home.path / "told" / f"{name}-{addressee}.json"

    @property
    def exists(self) -> bool:
        """Return True if a night has created the record."""
        return self._file.exists()

    def read(self) -> frozenset[Key]:
        """Return the recorded keys.

        If the file is unreadable, return no keys: a repeated message is better than a lost one.
        """
        try:
            return frozenset(tuple(map(str, key)) for key in json.loads(self._file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return frozenset()

    def write(self, keys: Iterable[Key]) -> None:
        """Replace the record.

        Raises:
            UsageError: The file cannot be written.
        """
        replace_file(self._file, json.dumps(sorted(set(keys))).encode())


def gist(reason: str) -> str:
    """Return a reason in a form that is equal whenever the cause is the same.

    Numbers and digests (ports, counts, ids) are replaced by `#`, because they vary from night to
    night.
    """
    return re.sub(r"\b[0-9a-f]{8,}\b|\d+", "#", plain_line(reason, 300).lower())


def counted(n: int, name: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n} {name}" if n == 1 else f"{n} {name}s"


PAIR_EVENTS: tuple[Event, ...] = ("regression", "judge_moved")
EVENTS: tuple[Event, ...] = (*PAIR_EVENTS, "trend", "change_point", "recovery")
"""Events of the tables, in the order of their notifications."""
Row = Mapping[str, Any]
_PAIRS = """
    SELECT * FROM comparisons WHERE (run_id, other_run_id) IN
        (SELECT (run_id, other_run_id) FROM comparisons
         WHERE event IN ('regression', 'judge_moved'))
    ORDER BY model, revision, setting, run_id, other_run_id, against DESC, metric
"""
_SERIES = """
    SELECT *,
        count(*) FILTER (event = 'recovery') OVER (PARTITION BY family, series, metric)
        AS n_recoveries
    FROM history ORDER BY model, revision, setting, metric, position
"""


@dataclass(frozen=True)
class NightEvents:
    """All events of the published tables."""

    pairs: tuple[tuple[Row, ...], ...]
    """Rows of `comparisons` for each pair of runs with an event."""
    series: tuple[Row, ...]
    """Rows of `history` with an event."""

    @property
    def keys(self) -> frozenset[Key]:
        """Return the keys that identify the events."""
        of_pairs = (
            pair_key(row) for pair in self.pairs for row in pair if row["event"] in PAIR_EVENTS
        )
        return frozenset((*of_pairs, *map(series_key, self.series)))

    def lines(self, kind: Event, new: Collection[Key], site_url: str | None) -> tuple[Line, ...]:
        """Return one line per checkpoint and setting with a new event of a kind."""
        return (
            *_pair_lines(self.pairs, kind, new, site_url),
            *_series_lines(self.series, kind, new, site_url),
        )


def find_events(home: Home) -> NightEvents:
    """Find all events (such as regressions) of the published tables.

    The result is empty if the warehouse or its tables `comparisons` and `history` are missing.
    """
    import duckdb

    from warehouse.connect import connect, fetch_rows

    if not home.warehouse.exists():
        return NightEvents((), ())
    with connect(home.path) as warehouse:
        try:
            pairs, series = (fetch_rows(warehouse.execute(sql)) for sql in (_PAIRS, _SERIES))
        except (duckdb.CatalogException, duckdb.BinderException):
            return NightEvents((), ())
    of_pair = groupby(pairs, key=lambda row: (row["run_id"], row["other_run_id"], row["against"]))
    return NightEvents(
        tuple(tuple(rows) for _, rows in of_pair), tuple(row for row in series if row["event"])
    )


def pair_key(row: Row) -> Key:
    """Return the key that identifies an event of a pair."""
    return row["event"], row["run_id"], row["other_run_id"], row["metric"]


def series_key(row: Row) -> Key:
    """Return the key that identifies an event of a series.

    A trend is one event until the series recovers.
    """
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
    """Return a line that compares a checkpoint with another run: the main metric, then the rest."""
    main, *others = sorted(pair, key=_rank)
    parts = [
        f"{verdict(main)} on {_values(main)} (n = {main['n']}, {_evidence(main)})"
        f" against {_name(main, 'other_')}"
    ]
    for word, event in (
        ("worse", "regression"),
        ("worse, but the judge drifted", "judge_moved"),
        ("better", "improvement"),
    ):
        moved = [f"{_values(row)} ({_evidence(row)})" for row in others if row["event"] == event]
        parts += [f"also {word}: {', '.join(moved)}"] if moved else []
    parts.append(f"run {main['run_id'][:12]}")
    judged = judge_drift_text(main["judge_n"], main["judge_n_changed"])
    page = comparison_page(main["other_run_id"], main["run_id"])
    link = (
        address(site_url, page)
        if site_url
        else f"parley compare {main['other_run_id'][:12]} {main['run_id'][:12]}"
    )
    return f"{_name(main)} · {main['setting']}: {'; '.join(parts)}{judged}; {link}"


def verdict(row: Row) -> str:
    """Return the verdict on one metric of a pair: `better`, `worse`, `equal` or `undecided`.

    A sequential decision gives the verdict if there is one. Otherwise a pair is equal if the 95%
    interval of the difference lies within the threshold, or if no problem has a different score.
    """
    verdict_of_event = {
        "regression": "worse",
        "improvement": "better",
        "judge_moved": "undecided (the judge drifted)",
    }
    if row["event"] in verdict_of_event:
        return verdict_of_event[row["event"]]
    if row["interval_kind"] == SEQUENCE:
        return "equal" if row["decision"] == EQUIVALENT else row["decision"]
    if row["interval_kind"] is None:  # another metric decided the run's early stop
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


def _evidence(row: Row) -> str:
    """Return the evidence for a verdict: the pair's sequential decision, or the test's q-value."""
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
    """Return the model's name, with the revision if both runs have the same name."""
    model, revision = row[f"{prefix}model"], row[f"{prefix}revision"]
    return f"{model}@{revision[:12]}" if revision and row["model"] == row["other_model"] else model


def _rank(row: Row) -> tuple[int, str]:
    """Return the position of a metric in its benchmark's order. The main metric comes first."""
    try:
        metrics = BENCHMARKS.load(row["benchmark"]).metrics_of(row["setting"].partition(".")[2])
    except (ParleyError, KeyError):  # the benchmark is not installed here
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
    text = {
        "trend": f"{row['family']} declines steadily on {row['metric']}:"
        f" {levels} over {row['n_points']} checkpoints ({row['trend_slope'] or 0.0:+.4f} each)",
        "change_point": f"{row['family']} is worse on {row['metric']} from this checkpoint on:"
        f" {levels}",
        "judge_moved": f"{row['family']} seems worse on {row['metric']}, but the judge drifted:"
        f" {levels}",
        "recovery": f"{row['family']} has recovered on {row['metric']}: {levels}",
    }[row["event"]]
    test = "" if row["event"] == "recovery" or q_value is None else f", q = {q_value:.2g}"
    page = f"; {address(site_url, history_page(row['family']))}" if site_url else ""
    return (
        f"{row['model']} · {row['setting']}: {text} (n = {row['n']}{test});"
        f" run {row['run_id'][:12]}{page}"
    )


def summary_lines(rows: Sequence[Row], site_url: str | None) -> tuple[Line, ...]:
    """Return one line per pair of a checkpoint and its predecessor, even if it has no event.

    Args:
        rows: Rows of `comparisons` for a night's runs.
        site_url: Address of the site, for links.
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
