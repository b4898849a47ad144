"""Messages about runs without published results and about sources that could not be read; each cause is reported once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flows.night.reporting.messages import Event, Key, Line, Message, counted, gist, packed
from tasks.planning.reporting.report import RunReport

_STATUS_OF: Mapping[Event, str] = {
    "failure": "failed",
    "withheld": "withheld",
    "budget": "incomplete",
}
_NAMED = 3
"""Runs of one cause that a line names."""


@dataclass(frozen=True)
class Reported:
    """What a night has to report of failures."""

    messages: tuple[tuple[Message, tuple[Key, ...]], ...]
    """Each message with what it reports for the first time."""
    over: frozenset[Key]
    """What was reported before, and is over."""


def reported_runs(
    reports: Sequence[RunReport], known: frozenset[Key] = frozenset(), link: str | None = None
) -> Reported:
    """Report how a night's runs ended: a line for each model and cause, in messages of one event each.

    Runs that failed or were withheld for a cause that was reported before bring no message. One about others lists them.

    Args:
        known: what was reported before.
        link: address of the night's page, for the last line.
    """
    messages: list[tuple[Message, tuple[Key, ...]]] = []
    current = set[Key]()
    for event, status in _STATUS_OF.items():
        ended = [report for report in reports if report.status == status]
        current.update(_key(event, report) for report in ended)
        new = [report for report in ended if event == "budget" or _key(event, report) not in known]
        if new:
            old = [report for report in ended if report not in new]
            lines = [
                *_cause_lines(event, new),
                *([_known_line(status, old)] if old else []),
                *([Line(link)] if link else []),
            ]
            messages += packed(event, f"{counted(len(new), 'run')} {status}", lines)
    places = {(report.setting, report.model) for report in reports}
    return Reported(
        tuple(messages), frozenset(key for key in known if key[1:3] in places) - current
    )


def reported_sources(lines: Sequence[str], known: frozenset[Key] = frozenset()) -> Reported:
    """Report sources that could not be read.

    Args:
        lines: one about each source.
        known: what was reported before.
    """
    keys = {line: ("source", gist(line)) for line in lines}
    new = [Line(line, (key,)) for line, key in keys.items() if key not in known]
    over = frozenset(key for key in known if key[0] == "source") - {*keys.values()}
    return Reported(tuple(packed("failure", f"{counted(len(new), 'source')} not read", new)), over)


def _key(event: Event, report: RunReport) -> Key:
    return event, report.setting, report.model, gist(report.reason or "")


def _cause_lines(event: Event, reports: Iterable[RunReport]) -> list[Line]:
    causes: dict[tuple[str, str], list[RunReport]] = {}
    for report in reports:
        causes.setdefault((report.model, report.reason or ""), []).append(report)
    return [
        Line(
            f"{_named([report.title for report in of_cause])}: {reason}",
            tuple(_key(event, report) for report in of_cause),
        )
        for (_, reason), of_cause in causes.items()
    ]


def _known_line(status: str, reports: Sequence[RunReport]) -> Line:
    return Line(f"{status} as reported before: {_named([report.title for report in reports])}")


def _named(titles: Sequence[str]) -> str:
    more = f" and {counted(len(titles) - _NAMED, 'other run')}" if len(titles) > _NAMED else ""
    return ", ".join(titles[:_NAMED]) + more
