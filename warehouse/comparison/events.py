"""Events of comparisons and series: losses found in a night, with a bounded rate of false ones.

A night tests hundreds of hypotheses: one per pair of runs x metric, and per series x metric. Their
p-values are adjusted together (Benjamini and Hochberg). So a night in which nothing changed has an
event of any kind with a probability of at most 5%. A decision about a pair has a guarantee of its
own and no p-value, and replaces the test.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from schemas.grouping import grouped
from warehouse.comparison.decisions import BETTER, EQUIVALENT, WORSE
from warehouse.comparison.history import trend
from warehouse.comparison.paired import ALPHA, adjusted

REGRESSION, IMPROVEMENT, JUDGE_MOVED = "regression", "improvement", "judge_moved"
TREND, CHANGE_POINT, RECOVERY = "trend", "change_point", "recovery"
JUDGE_NOISE = 0.1
"""Share of the bundled drift cases whose judgements may change without an event.

Judges sample their answers, so some change by chance.
"""
Row = dict[str, Any]
_Line = Sequence[Row]
"""Rows of `history` of one series and metric, in order."""


def with_pair_events(rows: Sequence[Row], judged: Collection[str], q_value: str) -> list[Row]:
    """Return rows of `comparisons` with their events.

    Args:
        judged: metrics that read judgements.
        q_value: name of the column with the adjusted p-value that decides.
    """
    return [
        {**row, "event": _pair_event(row, row[q_value], row["metric"] in judged)} for row in rows
    ]


def with_night_events(
    compared: Sequence[Row], history: Sequence[Row], judged: Collection[str]
) -> tuple[list[Row], list[Row]]:
    """Return the rows of `comparisons` and `history` with the events of all nights.

    Args:
        compared: rows of `comparisons`.
        history: rows of `history`. Those of one series and metric are adjacent and in order.
        judged: metrics that read judgements.
    """
    lines = _lines(history)
    q_values = _night_q_values(compared, lines)
    pairs = [
        {**row, "night_q": q_values.get(("pair", number))} for number, row in enumerate(compared)
    ]
    pairs = with_pair_events(pairs, judged, "night_q")
    of_run = {
        (row["run_id"], row["metric"]): row for row in pairs if row["against"] == "predecessor"
    }
    marked = [
        row
        for number, line in enumerate(lines)
        for row in _with_line_events(
            line,
            q_values.get(("trend", number)),
            q_values.get(("change", number)),
            of_run,
            is_judged=line[0]["metric"] in judged,
        )
    ]
    return pairs, marked


def has_judge_drift(row: Mapping[str, Any]) -> bool:
    """Return whether the judgements of too many drift cases changed between the two nights.

    Drift cases are fixed inputs of judges, bundled with Parley, which nights repeat.
    """
    return bool(row["judge_n"]) and row["judge_n_changed"] > JUDGE_NOISE * row["judge_n"]


def _pair_event(row: Row, q_value: float | None, is_judged: bool) -> str | None:
    if row["better"] is None or not row["difference"] or abs(row["difference"]) < row["threshold"]:
        return None
    outcome = (
        row["decision"] if row["decision"] in (BETTER, WORSE, EQUIVALENT) else _tested(row, q_value)
    )
    if outcome == WORSE:
        return JUDGE_MOVED if is_judged and has_judge_drift(row) else REGRESSION
    return IMPROVEMENT if outcome == BETTER else None


def _tested(row: Row, q_value: float | None) -> str | None:
    if q_value is None or q_value >= ALPHA:
        return None
    return BETTER if _gain(row["difference"], row["better"]) > 0 else WORSE


def _gain(difference: float, better: str) -> float:
    return difference if better == "higher" else -difference


def _lines(history: Sequence[Row]) -> list[list[Row]]:
    key = itemgetter("family", "series", "metric", "metric_version")
    return list(grouped((key(row), row) for row in history).values())


def _night_q_values(
    compared: Sequence[Row], lines: Sequence[_Line]
) -> dict[tuple[str, int], float | None]:
    """Return the adjusted p-value of each hypothesis, by its kind and number.

    A series belongs to the night of its latest run.
    """
    p_values: dict[str, dict[tuple[str, int], float | None]] = {}
    for number, row in enumerate(compared):
        if row["better"] is not None:
            p_values.setdefault(row["night_id"], {})["pair", number] = row["p_value"]
    for number, line in enumerate(lines):
        latest = max(line, key=lambda row: row["night_id"])
        if latest["better"] is not None:
            of_night = p_values.setdefault(latest["night_id"], {})
            of_night["trend", number], of_night["change", number] = (
                latest["trend_p"],
                latest["change_p"],
            )
    q_values: dict[tuple[str, int], float | None] = {}
    for of_night in p_values.values():
        q_values |= adjusted(of_night)
    return q_values


def _with_line_events(
    line: _Line,
    trend_q: float | None,
    change_q: float | None,
    of_run: Mapping[tuple[str, str], Row],
    *,
    is_judged: bool,
) -> Iterator[Row]:
    events = dict(_losses(line, trend_q, change_q, is_judged=is_judged))
    events |= dict(_recoveries(line, events, of_run))
    for row in line:
        event, before, after = events.get(row["position"], (None, None, None))
        night = {"trend_night_q": trend_q, "change_night_q": change_q}
        yield {**row, **night, "event": event, "event_before": before, "event_after": after}


_Event = tuple[str, float, float]
"""(kind, level before, level after)."""


def _losses(
    line: _Line, trend_q: float | None, change_q: float | None, *, is_judged: bool
) -> Iterator[tuple[int, _Event]]:
    """Yield the position and event of a loss: a change point, or else a declining trend.

    A series has at most one such event.
    """
    measured = [row for row in line if row["mean"] is not None]
    better = line[0]["better"]
    changed = next((number for number, row in enumerate(measured) if row["is_change_point"]), None)
    if changed is not None:
        row = measured[changed]
        before, after = (
            _median([point["mean"] for point in part])
            for part in (measured[:changed], measured[changed:])
        )
        if (
            change_q is not None
            and change_q < ALPHA
            and _is_loss(before, after, better, row["threshold"])
        ):
            kind = JUDGE_MOVED if is_judged and has_judge_drift(row) else CHANGE_POINT
            yield row["position"], (kind, before, after)
    elif trend_q is not None and trend_q < ALPHA:
        last = measured[-1]
        fall = last["trend_slope"] * (len(measured) - 1)
        if _is_loss(0.0, fall, better, last["threshold"]) and _is_loss(
            measured[0]["mean"], last["mean"], better, 0.0
        ):
            yield last["position"], (TREND, measured[0]["mean"], last["mean"])


def _recoveries(
    line: _Line, losses: Mapping[int, _Event], of_run: Mapping[tuple[str, str], Row]
) -> Iterator[tuple[int, _Event]]:
    """Yield each checkpoint that has recovered from a loss.

    Its mean is within the threshold of the level before the loss, and its 95% interval excludes the
    level of the loss.
    """
    better, sign = line[0]["better"], 1 if line[0]["better"] == "higher" else -1
    if better is None:
        return
    lost: tuple[float, float] | None = None
    for number, row in enumerate(line):
        mean, bound = row["mean"], row["ci_low" if better == "higher" else "ci_high"]
        pair = of_run.get((row["run_id"], row["metric"]))
        if mean is None:
            continue
        declined = lost
        if declined is None and pair is not None and pair["event"] == IMPROVEMENT:
            declined = _declined(
                [point["mean"] for point in line[:number] if point["mean"] is not None], better
            )
        if declined is not None and bound is not None:
            before, after = declined
            if sign * (mean - before) >= -row["threshold"] and sign * (bound - after) > 0:
                yield row["position"], (RECOVERY, after, mean)
                lost = None
                continue
        if lost is None and pair is not None and pair["event"] == REGRESSION:
            lost = (pair["other_mean"], pair["mean"])
        elif lost is None and losses.get(row["position"], ("",))[0] == CHANGE_POINT:
            lost = losses[row["position"]][1:]


def _declined(means: Sequence[float], better: str) -> tuple[float, float] | None:
    """Return the first and last level of a significant decline, or None."""
    slope_test = trend(means)
    if (
        slope_test.slope is None
        or slope_test.p_value is None
        or slope_test.p_value >= ALPHA
        or not _is_loss(0.0, slope_test.slope, better, 0.0)
    ):
        return None
    return means[0], means[-1]


def _is_loss(before: float, after: float, better: str, threshold: float) -> bool:
    return _gain(after - before, better) < 0 and abs(after - before) >= threshold


def _median(values: Sequence[float]) -> float:
    from statistics import median

    return float(median(values))
