"""Notifications about runs without published results and unreadable sources.

Each cause is reported once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flows.night.reporting.messages import Event, Key, Line, Message, counted, gist, packed
from tasks.planning.reporting.report import RunReport

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
    causes: dict[tuple[str, str], list[RunReport]] = {}
    for report in reports:
        causes.setdefault((report.model, report.reason or ""), []).append(report)
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
