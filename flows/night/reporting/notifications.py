"""Notifications of a night: failures, withheld runs, reached caps, and regressions.

Each event is reported once, whichever publication created it (see `flows.night.reporting.events`).
A failure that repeats from night to night is also reported once, and later messages list it
(`mute`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.night.reporting.destinations import Notify, send
from flows.night.reporting.events import (
    EVENTS,
    DeliveredKeys,
    Event,
    Key,
    Line,
    Message,
    NightEvents,
    counted,
    find_events,
    gist,
    packed,
    summary_lines,
)
from schemas.errors import ParleyError, RunsFailed
from schemas.grouping import grouped
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home

_STATUS_OF: Mapping[Event, str] = {
    "failure": "failed",
    "withheld": "withheld",
    "budget": "incomplete",
}
_MAX_TITLES = 3
"""Number of runs of one cause that a line names."""


@dataclass(frozen=True)
class Reported:
    """Notifications about failures, and the reported failures that no longer occur."""

    messages: tuple[tuple[Message, tuple[Key, ...]], ...]
    """Each message with the keys that it reports for the first time."""
    over: frozenset[Key]
    """Keys that were reported earlier and whose failure no longer occurs."""


def reported_runs(
    reports: Sequence[RunReport], reported: frozenset[Key] = frozenset(), link: str | None = None
) -> Reported:
    """Report a night's unpublished runs: one line per model and cause, one event per message.

    A run whose cause of failure or withholding was reported earlier causes no message. A message
    about other runs lists it.

    Args:
        reports: Reports of the night's runs.
        reported: Keys that were reported earlier.
        link: Address of the night's page, for the last line.
    """
    messages: list[tuple[Message, tuple[Key, ...]]] = []
    current = set[Key]()
    for event, status in _STATUS_OF.items():
        ended = [report for report in reports if report.status == status]
        current.update(_key(event, report) for report in ended)
        new = [
            report for report in ended if event == "budget" or _key(event, report) not in reported
        ]
        if new:
            old = [report for report in ended if report not in new]
            lines = [
                *_cause_lines(event, new),
                *([_known_line(status, old)] if old else []),
                *([Line(link)] if link else []),
            ]
            messages += packed(event, f"{counted(len(new), 'run')} {status}", lines)
    settings = {(report.setting, report.model) for report in reports}
    return Reported(
        tuple(messages), frozenset(key for key in reported if key[1:3] in settings) - current
    )


def reported_sources(lines: Sequence[str], reported: frozenset[Key] = frozenset()) -> Reported:
    """Report sources that could not be read.

    Args:
        lines: One line per source.
        reported: Keys that were reported earlier.
    """
    keys = {line: ("source", gist(line)) for line in lines}
    new = [Line(line, (key,)) for line, key in keys.items() if key not in reported]
    over = frozenset(key for key in reported if key[0] == "source") - {*keys.values()}
    return Reported(
        tuple(packed("failure", f"{counted(len(new), 'source')} could not be read", new)), over
    )


def _key(event: Event, report: RunReport) -> Key:
    return event, report.setting, report.model, gist(report.reason or "")


def _cause_lines(event: Event, reports: Iterable[RunReport]) -> list[Line]:
    causes = grouped(((report.model, report.reason or ""), report) for report in reports)
    return [
        Line(
            f"{_first_titles([report.title for report in of_cause])}: {reason}",
            tuple(_key(event, report) for report in of_cause),
        )
        for (_, reason), of_cause in causes.items()
    ]


def _known_line(status: str, reports: Sequence[RunReport]) -> Line:
    return Line(
        f"{status} as reported earlier: {_first_titles([report.title for report in reports])}"
    )


def _first_titles(titles: Sequence[str]) -> str:
    more = (
        f" and {counted(len(titles) - _MAX_TITLES, 'other run')}"
        if len(titles) > _MAX_TITLES
        else ""
    )
    return ", ".join(titles[:_MAX_TITLES]) + more


_log = logging.getLogger("parley.notify")
_NAMES: Mapping[Event, tuple[str, str]] = {
    "regression": ("regression", "regressions"),
    "judge_moved": ("possible loss (judge drift)", "possible losses (judge drift)"),
    "trend": ("slow decline", "slow declines"),
    "change_point": ("change point", "change points"),
    "recovery": ("recovery", "recoveries"),
}
"""Singular and plural of each event, for message titles."""


def begin_event_record(notify: Notify, home: Home) -> None:
    """Create the record of reported events before a publication.

    Events in the tables at that time are not reported as new. Keys of an earlier version's record,
    which contains only regressions, are imported.
    """
    if not {*EVENTS} & {*notify.events}:
        return
    with _logging_faults():
        record = DeliveredKeys(home, "events", notify.addressee)
        if record.exists:
            return
        earlier, keys = (
            DeliveredKeys(home, "regressions", notify.addressee),
            find_events(home).keys,
        )
        if earlier.exists:
            known_keys = {("regression", *key) for key in earlier.read()}
            keys = frozenset(key for key in keys if key[0] != "regression" or key in known_keys)
        record.write(keys)


def report_events(notify: Notify, home: Home, site_url: str | None = None) -> None:
    """Send the unreported events of the published tables, and record the delivered ones.

    Args:
        notify: Notification settings.
        home: Parley's data folder.
        site_url: Address of the site, for links.
    """
    if not {*EVENTS} & {*notify.events}:
        return
    with _logging_faults():
        record, events = DeliveredKeys(home, "events", notify.addressee), find_events(home)
        known_keys = record.read()
        messages = (
            message
            for kind in EVENTS
            for message in _event_messages(events, kind, events.keys - known_keys, site_url)
        )
        delivered = _deliver(notify, messages)
        record.write(
            {key for key in known_keys if key in events.keys or key[0] == "trend"} | delivered
        )


def _event_messages(
    events: NightEvents, kind: Event, new: frozenset[Key], site_url: str | None
) -> Iterator[tuple[Message, tuple[Key, ...]]]:
    lines = events.lines(kind, new, site_url)
    n = sum(len(line.keys) for line in lines)
    of = f" in {counted(len(lines), 'comparison')}" if len(lines) < n else ""
    yield from packed(kind, f"{n} {_NAMES[kind][n != 1]}{of}", lines)


def report_summary(
    notify: Notify,
    night_id: str,
    compared: Sequence[Mapping[str, Any]],
    site_url: str | None,
) -> None:
    """Send a comparison of a night's checkpoints with their predecessors, if `summary` is selected.

    Args:
        notify: Notification settings.
        night_id: Id of the night.
        compared: Rows of `comparisons` for the night's runs.
        site_url: Address of the site, for links.
    """
    if "summary" in notify.events:
        lines = summary_lines(compared, site_url)
        title = f"night {night_id}, {counted(len(lines), 'comparison')}"
        _deliver(notify, packed("summary", title, lines))


def report_runs(
    notify: Notify, home: Home, reports: Sequence[RunReport], link: str | None = None
) -> None:
    """Report runs that failed, were withheld or stopped at the budget, with the reasons.

    Args:
        notify: Notification settings.
        home: Parley's data folder.
        reports: Reports of the night's runs.
        link: Address of the night's page.
    """
    _report(notify, home, lambda reported: reported_runs(reports, reported, link))


def report_sources(notify: Notify, home: Home, lines: Sequence[str]) -> None:
    """Send one line per source of checkpoints that could not be read, which the night ignores."""
    _report(notify, home, lambda reported: reported_sources(lines, reported))


def _report(notify: Notify, home: Home, find: Callable[[frozenset[Key]], Reported]) -> None:
    with _logging_faults():
        record = DeliveredKeys(home, "failures", notify.addressee)
        known_keys = record.read()
        reported = find(known_keys if notify.mute else frozenset())
        keys = (known_keys - reported.over) | _deliver(notify, reported.messages)
        if keys != known_keys:
            record.write(keys)


def _deliver(notify: Notify, messages: Iterable[tuple[Message, tuple[Key, ...]]]) -> set[Key]:
    """Send the messages whose events are selected. Return the keys of the delivered ones."""
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
            "Events, or the record of sent notifications, could not be read or written, so a later"
            " night may send some notifications late or twice: %s",
            error,
        )


@contextmanager
def reporting_failure(notify: Notify | None) -> Iterator[None]:
    """Send a notification if the block raises an error before the night's runs are reported."""
    try:
        yield
    except RunsFailed:
        raise
    except Exception as error:
        _send_failure(notify, "the night failed", str(error) or type(error).__name__)
        raise


def report_crash(flow: Any, flow_run: Any, state: Any) -> None:
    """Send a notification that a deployed night crashed. This is a hook of its flow.

    Only deployed nights send one: a person who starts a night by command sees it end.

    Args:
        flow: The flow. Prefect defines the names of these arguments.
        flow_run: The flow's run.
        state: The state that triggered the hook.
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
