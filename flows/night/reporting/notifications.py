"""Reports a night to people: that it failed, withheld a run, met a cap of its budget, or found a model worse than before.

An event is reported once, whichever publication brought it: see `flows.night.reporting.events`. A failure that
repeats from night to night is reported once, too, and later messages list it (`mute`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.night.reporting.destinations import Notify, send
from flows.night.reporting.events import EVENTS, NightEvents, find_events, summary_lines
from flows.night.reporting.failures import Reported, reported_runs, reported_sources
from flows.night.reporting.messages import DeliveredKeys, Event, Key, Line, Message, counted, packed
from schemas.errors import ParleyError, RunsFailed
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home

_log = logging.getLogger("parley.notify")
_NAMES: Mapping[Event, tuple[str, str]] = {
    "regression": ("regression", "regressions"),
    "judge_moved": ("loss beside a moved judge", "losses beside a moved judge"),
    "trend": ("slow decline", "slow declines"),
    "change_point": ("change point", "change points"),
    "recovery": ("recovery", "recoveries"),
}
"""Event -> the name of one and of several, in a message's title."""


def begin_event_record(notify: Notify | None, home: Home) -> None:
    """Begin the record of reported events before a publication: those that the tables show already are no news.

    A record of an earlier Parley, which holds regressions alone, is taken over.
    """
    if notify is None or not {*EVENTS} & {*notify.events}:
        return
    with _logging_faults():
        record = DeliveredKeys(home, "events", notify.addressee)
        if record.exists:
            return
        earlier, found = (
            DeliveredKeys(home, "regressions", notify.addressee),
            find_events(home).keys,
        )
        if earlier.exists:
            known = {("regression", *key) for key in earlier.read()}
            found = frozenset(key for key in found if key[0] != "regression" or key in known)
        record.write(found)


def report_events(notify: Notify | None, home: Home, site_url: str | None = None) -> None:
    """Send a message about each event of the published tables that was not reported, and record those that were delivered.

    Args:
        site_url: address of the site, for links.
    """
    if notify is None or not {*EVENTS} & {*notify.events}:
        return
    with _logging_faults():
        record, found = DeliveredKeys(home, "events", notify.addressee), find_events(home)
        known = record.read()
        messages = (
            message
            for kind in EVENTS
            for message in _event_messages(found, kind, found.keys - known, site_url)
        )
        delivered = _deliver(notify, messages)
        record.write({key for key in known if key in found.keys or key[0] == "trend"} | delivered)


def _event_messages(
    found: NightEvents, kind: Event, new: frozenset[Key], site_url: str | None
) -> Iterator[tuple[Message, tuple[Key, ...]]]:
    lines = found.lines(kind, new, site_url)
    n = sum(len(line.keys) for line in lines)
    of = f" in {counted(len(lines), 'comparison')}" if len(lines) < n else ""
    yield from packed(kind, f"{n} {_NAMES[kind][n != 1]}{of}", lines)


def report_summary(
    notify: Notify | None,
    night_id: str,
    compared: Sequence[Mapping[str, Any]],
    site_url: str | None,
) -> None:
    """Send how each checkpoint of a night stands beside its predecessor, if that is asked for.

    Args:
        compared: rows of `comparisons` of the night's runs.
        site_url: address of the site, for links.
    """
    if notify is not None and "summary" in notify.events:
        lines = summary_lines(compared, site_url)
        title = f"night {night_id}, {counted(len(lines), 'comparison')}"
        _deliver(notify, packed("summary", title, lines))


def report_runs(
    notify: Notify | None, home: Home, reports: Sequence[RunReport], link: str | None = None
) -> None:
    """Send which of a night's runs failed, were withheld or stopped at the budget, and why.

    Args:
        link: address of the night's page.
    """
    _report(notify, home, lambda known: reported_runs(reports, known, link))


def report_sources(notify: Notify | None, home: Home, lines: Sequence[str]) -> None:
    """Send which sources of checkpoints could not be read, a line each: the night does without what they hold."""
    _report(notify, home, lambda known: reported_sources(lines, known))


def _report(notify: Notify | None, home: Home, find: Callable[[frozenset[Key]], Reported]) -> None:
    if notify is None:
        return
    with _logging_faults():
        record = DeliveredKeys(home, "failures", notify.addressee)
        known = record.read()
        reported = find(known if notify.mute else frozenset())
        keys = (known - reported.over) | _deliver(notify, reported.messages)
        if keys != known:
            record.write(keys)


def _deliver(notify: Notify, messages: Iterable[tuple[Message, tuple[Key, ...]]]) -> set[Key]:
    """Send those messages whose events are asked for; return what the delivered ones report."""
    delivered = set[Key]()
    for message, keys in messages:
        if message.event in notify.events and send(notify, [message]):
            delivered.update(keys)
    return delivered


@contextmanager
def _logging_faults() -> Iterator[None]:
    try:
        yield
    except (OSError, ParleyError) as error:
        _log.warning(
            "what was to be reported could not be read or recorded; a later night may report it (again): %s",
            error,
        )


@contextmanager
def reporting_failure(notify: Notify | None) -> Iterator[None]:
    """Send an error that ends the night before its runs are reported."""
    try:
        yield
    except RunsFailed:
        raise
    except Exception as error:
        _send_failure(notify, "the night failed", str(error) or type(error).__name__)
        raise


def report_crash(flow: Any, flow_run: Any, state: Any) -> None:
    """Send that a deployed night crashed, as a hook of its flow. A person who types a command sees its end.

    Args:
        flow: the flow; Prefect names its arguments.
        flow_run: its run.
        state: the state that called the hook.
    """
    if flow_run.deployment_id is not None:
        _send_failure(_notify_of(flow_run.parameters), "night crashed", str(state.message))


def _send_failure(notify: Notify | None, title: str, reason: str) -> None:
    send(notify, [message for message, _ in packed("failure", title, [Line(reason)])])


def _notify_of(parameters: Mapping[str, Any]) -> Notify | None:
    from flows.night.config import read_config

    if parameters.get("requests") is not None:
        return Notify.model_validate(parameters["notify"]) if parameters.get("notify") else None
    return read_config(Path(parameters.get("config") or "nightly.yaml"), check_names=False).notify
