"""Selection of checkpoints with pending evaluations for a night."""

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
from tasks.checkpoints.scan import (
    Scan,
    finished_runs,
    is_known,
    known_checkpoints,
    left_behind,
    record_checkpoints,
    scan_sources,
)
from tasks.checkpoints.source import SourceCheckpoint
from tasks.planning.dataset import DatasetCache
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home


@dataclass(frozen=True)
class PendingCheckpoint:
    """Complete checkpoint with its unfinished runs."""

    checkpoint: SourceCheckpoint
    plans: tuple[RunPlan, ...]
    is_left_behind: bool
    """True if a run of this checkpoint failed or was withheld in the latest night that ran it.

    Such a checkpoint is deprioritised.
    """
    tonight: bool = True
    """True if the next night runs this checkpoint.

    False if the source's `at_most` leaves it for a later night.
    """


class CheckpointPlan:
    """Checkpoints found in a configuration's sources, with their pending evaluations.

    Making the plan starts no runs, and reads only weights that no earlier plan has read.

    Args:
        home: Parley's data folder.
        settings: Configuration of the night.
        folder: Base folder of relative paths in the configuration.
        backfill: Plan all pending checkpoints for the next night, ignoring `at_most`.

    Raises:
        UsageError: A benchmark cannot be planned.
    """

    def __init__(
        self, home: Home, settings: NightlyConfig, folder: Path, *, backfill: bool = False
    ) -> None:
        self.home, self._settings, self._folder, self._backfill = home, settings, folder, backfill
        self.scan: Scan = (
            scan_sources(home, settings.sources, folder) if settings.sources else Scan()
        )

    @cached_property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        """Checkpoints with unfinished benchmarks, in the order in which nights run them.

        The newest checkpoint comes first. Checkpoints that failed in the latest night come last, so
        one that always fails does not block the others.
        """
        names = {
            digest: row.model.partition(":")[2]
            for digest, row in known_checkpoints(self.home).items()
        }
        finished, behind = (
            (finished_runs(self.home), left_behind(self.home))
            if self.scan.checkpoints
            else ({}, frozenset[str]())
        )
        pending: list[PendingCheckpoint] = []
        cache = DatasetCache()
        for checkpoint in self.scan.checkpoints:
            name = names.get(checkpoint.digest, checkpoint.name)
            plans = self._unfinished(checkpoint, name, finished, cache) if checkpoint.is_due else ()
            if plans:
                is_left_behind = any(plan.run_id in behind for plan in plans)
                pending.append(PendingCheckpoint(checkpoint, plans, is_left_behind))
        pending.sort(key=lambda item: item.is_left_behind)
        return tuple(self._marked_for_tonight(pending))

    def _marked_for_tonight(
        self, pending: Sequence[PendingCheckpoint]
    ) -> Iterator[PendingCheckpoint]:
        n_by_source: Counter[int] = Counter()
        for evaluations in pending:
            source = evaluations.checkpoint.source
            n_by_source[id(source)] += 1
            yield replace(
                evaluations,
                tonight=self._backfill
                or n_by_source[id(source)] <= (source.at_most or len(pending)),
            )

    def _unfinished(
        self,
        checkpoint: SourceCheckpoint,
        name: str,
        finished: Mapping[str, frozenset[str]],
        cache: DatasetCache,
    ) -> tuple[RunPlan, ...]:
        request_fields = checkpoint.source.request(
            checkpoint.spec,
            name if checkpoint.names_weights else None,
            checkpoint.digest,
            checkpoint.family,
        )
        plans = (
            plan_run(request, self.home, cache)
            for request in self._settings.requests_for(request_fields, self._folder)
        )
        return tuple(plan for plan in plans if not is_known(plan, finished))

    @property
    def tonight(self) -> tuple[PendingCheckpoint, ...]:
        """Return the checkpoints that the next night runs."""
        return tuple(pending for pending in self.pending if pending.tonight)

    def requests(self) -> tuple[EvaluationRequest, ...]:
        """Return the next night's requests, grouped by checkpoint, so that each is loaded once."""
        return tuple(plan.request for pending in self.tonight for plan in pending.plans)

    @property
    def unread(self) -> tuple[str, ...]:
        """Return one message per source that could not be read."""
        return tuple(
            f"source {source.source.place} could not be read: {source.reason}"
            for source in self.scan.unread
        )

    def lines(self) -> tuple[str, ...]:
        """Return the lines about the sources for the night's log."""
        waiting = [
            f"checkpoint {checkpoint.path} waits: {checkpoint.lacks}"
            for checkpoint in self.scan.checkpoints
            if checkpoint.lacks
        ]
        planned = [
            f"checkpoint {pending.checkpoint.path} is planned with {len(pending.plans)} runs"
            for pending in self.tonight
        ]
        later = len(self.pending) - len(self.tonight)
        return (
            *self.unread,
            *waiting,
            *planned,
            *([f"{later} checkpoints wait for a later night or a backfill"] if later else []),
        )


def night_requests(
    home: Home,
    settings: NightlyConfig,
    folder: Path,
    print_line: Callable[[str], None],
    *,
    keep: bool = True,
    backfill: bool = False,
) -> tuple[EvaluationRequest, ...]:
    """Return all requests of a night: its models, then its sources' pending checkpoints.

    If a source cannot be read and the night has other work, report the source as a failure to the
    destinations in `notify`.

    Args:
        home: Parley's data folder.
        settings: Configuration of the night.
        folder: Base folder of relative paths in the configuration.
        print_line: Function that receives one line per planned or waiting checkpoint and per
            unreadable source.
        keep: Record the selected checkpoints and send notifications. Pass False for a dry run.
        backfill: Plan all pending checkpoints, ignoring `at_most`.

    Raises:
        ConfigError: No destination in `notify` can be used.
        UsageError: A benchmark cannot be planned, or no source could be read and there is no other
            work.
    """
    require_places(settings.notify, home, print_line)
    plan = CheckpointPlan(home, settings, folder, backfill=backfill)
    for line in plan.lines():
        print_line(plain_line(line, 500))
    requests = (*settings.requests(folder), *plan.requests())
    if not requests and plan.scan.unread:
        raise UsageError(
            "; ".join(
                f"source {source.source.place}: {source.reason}" for source in plan.scan.unread
            )
        )
    if keep:
        if settings.notify is not None:
            report_sources(settings.notify, home, plan.unread)
        record_checkpoints(home, [pending.checkpoint for pending in plan.tonight])
    return requests
