"""Checkpoints of a night's sources: which are owed something, and which of them tonight takes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from flows.night.config import NightlyConfig
from flows.night.preflight.notification_destinations import require_places
from flows.night.reporting.notifications import report_sources
from schemas.errors import UsageError
from schemas.outside.display import plain_line
from tasks.checkpoints.evaluated import finished_runs, is_known, left_behind
from tasks.checkpoints.found import Found
from tasks.checkpoints.looking import Sighting, look
from tasks.checkpoints.record import keep_checkpoints, known_checkpoints
from tasks.planning.dataset import reading_once
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home


@dataclass(frozen=True)
class Owed:
    """A complete checkpoint with its runs that are not finished."""

    found: Found
    plans: tuple[RunPlan, ...]
    is_left_behind: bool
    """Whether a run of it failed or was withheld in the latest night that took it. Untried checkpoints go first."""
    tonight: bool = True
    """Whether the next night takes it; else others of its source come first."""


class CheckpointPlan:
    """What the sources of a configuration hold, and what follows from it. Starts nothing; weights are read where they are new.

    Args:
        folder: relative paths of the configuration begin here.
        backfill: the next night takes all that is owed, whatever `at_most` says.

    Raises:
        UsageError: a benchmark cannot be planned.
    """

    def __init__(
        self, home: Home, settings: NightlyConfig, folder: Path, *, backfill: bool = False
    ) -> None:
        self.home, self._settings, self._folder, self._backfill = home, settings, folder, backfill
        self.sighting: Sighting = (
            look(home, settings.sources, folder) if settings.sources else Sighting()
        )

    @cached_property
    def owed(self) -> tuple[Owed, ...]:
        """Checkpoints that some benchmark was not finished for, in the order in which nights take them.

        Newest first, and after them those that the latest night tried in vain: one that never ends keeps no other one back.
        """
        names = {
            digest: row.model.partition(":")[2]
            for digest, row in known_checkpoints(self.home).items()
        }
        finished, behind = (
            (finished_runs(self.home), left_behind(self.home))
            if self.sighting.found
            else ({}, frozenset[str]())
        )
        owed: list[Owed] = []
        with reading_once():
            for found in self.sighting.found:
                plans = (
                    self._unfinished(found, names.get(found.digest, found.name), finished)
                    if found.is_due
                    else ()
                )
                if plans:
                    owed.append(Owed(found, plans, any(plan.run_id in behind for plan in plans)))
        owed.sort(key=lambda one: one.is_left_behind)
        return tuple(self._in_their_nights(owed))

    def _in_their_nights(self, owed: Sequence[Owed]) -> Iterator[Owed]:
        taken: Counter[int] = Counter()
        for one in owed:
            source = one.found.source
            taken[id(source)] += 1
            yield replace(
                one, tonight=self._backfill or taken[id(source)] <= (source.at_most or len(owed))
            )

    def _unfinished(
        self, found: Found, name: str, finished: Mapping[str, frozenset[str]]
    ) -> tuple[RunPlan, ...]:
        asked = found.source.request(
            found.spec, name if found.names_weights else None, found.digest, found.family
        )
        plans = (
            plan_run(request, self.home)
            for request in self._settings.requests_for(asked, self._folder)
        )
        return tuple(plan for plan in plans if not is_known(plan, finished))

    @property
    def tonight(self) -> tuple[Owed, ...]:
        """Checkpoints that the next night takes."""
        return tuple(one for one in self.owed if one.tonight)

    def requests(self) -> tuple[EvaluationRequest, ...]:
        """What the next night asks of them: all of one checkpoint before the next one, so that each is loaded once."""
        return tuple(plan.request for one in self.tonight for plan in one.plans)

    @property
    def unread(self) -> tuple[str, ...]:
        """A line about each source that could not be read."""
        return tuple(
            f"source {one.source.place} was not read: {one.reason}" for one in self.sighting.unread
        )

    def lines(self) -> tuple[str, ...]:
        """What the night's log says of the sources."""
        waiting = [
            f"checkpoint {one.path} waits: {one.lacks}" for one in self.sighting.found if one.lacks
        ]
        taken = [
            f"checkpoint {one.found.path} is taken: {len(one.plans)} runs" for one in self.tonight
        ]
        later = len(self.owed) - len(self.tonight)
        return (
            *self.unread,
            *waiting,
            *taken,
            *([f"{later} checkpoints wait for another night or a backfill"] if later else []),
        )


def night_requests(
    home: Home,
    settings: NightlyConfig,
    folder: Path,
    say: Callable[[str], None],
    *,
    keep: bool = True,
    backfill: bool = False,
) -> tuple[EvaluationRequest, ...]:
    """Everything that a night by configuration asks: its models, then the checkpoints that its sources owe.

    A source that could not be read beside other models is told as a failure to those whom `notify` names.

    Args:
        say: is told, a line each, what was found and what waits.
        keep: write down which checkpoints are taken, and send word; False for a dry run.
        backfill: take every owed checkpoint, whatever `at_most` says.

    Raises:
        ConfigError: nobody could be told of the night at the places that `notify` names.
        UsageError: a benchmark cannot be planned, or no source could be read and nothing else is to be done.
    """
    require_places(settings.notify, home, say)
    plan = CheckpointPlan(home, settings, folder, backfill=backfill)
    for line in plan.lines():
        say(plain_line(line, 500))
    requests = (*settings.requests(folder), *plan.requests())
    if not requests and plan.sighting.unread:
        raise UsageError(
            "; ".join(f"source {one.source.place}: {one.reason}" for one in plan.sighting.unread)
        )
    if keep:
        report_sources(settings.notify, home, plan.unread)
        keep_checkpoints(home, [one.found for one in plan.tonight])
    return requests
