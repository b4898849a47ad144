"""One invocation from the command line: plans the requests, starts only the services they need, runs the nightly flow."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from flows.night.canary import require_live_canary
from flows.night.preflight import preflight
from flows.night.progress import Board
from flows.orchestration.processes import remove_abandoned
from sandbox.host import memory_cgroup
from sandbox.host.abandoned import end_abandoned
from schemas.errors import DiskFull, UsageError
from tasks.planning.dataset import reading_once
from tasks.planning.finished import as_published, finished_report
from tasks.planning.models import keep_models
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.report import RunReport
from tasks.planning.request import EvaluationRequest, key_names
from tasks.storage.disk import disk_full, has_no_room, is_full, named_before, require_room
from tasks.storage.home import Home


@dataclass(frozen=True)
class NightOutcome:
    night_id: str
    reports: tuple[RunReport, ...]


def run_night(home: Home, requests: Sequence[EvaluationRequest], board: Board, *, with_canary: bool = False) -> NightOutcome:
    """Run the requests; where all of them are finished, start nothing and tell how they ended.

    Args:
        with_canary: try the sandboxes with known cheats and golds first.

    Raises:
        NightVoid: a cheat passed, or a gold did not; nothing was started.
        UsageError: a request cannot be planned, or another process is at work on the only run; nothing was started.
        DiskFull: there was no room on the disk, at the start or later.
        InfraError: the only request's sandbox or endpoint is not usable, or the Prefect server does not start.
    """
    remove_abandoned(home.path / "dask")
    end_abandoned()
    memory_cgroup.remove_abandoned()
    with reading_once():
        return _run_what_is_left(home, requests, board, with_canary)


def _run_what_is_left(home: Home, requests: Sequence[EvaluationRequest], board: Board, with_canary: bool) -> NightOutcome:
    plans = [plan_run(request, home) for request in requests]
    if all(plan.is_finished() for plan in plans):
        return _already_finished(home, plans)
    require_room(home.path)
    if with_canary:
        board.stage("night", "canary")
        for line in require_live_canary(request.sandbox for request in requests):
            print(line, file=sys.stderr)
    passed: list[str] = []
    if len(plans) == 1:
        preflight(plans[0])
        passed.append(plans[0].run_id)
        with home.run_lock(plans[0].run_id):
            pass  # held by another process: said now, not after server and cluster were started
    with _naming_full_disk(home), _unlogged_logging():
        return _run_flow(home, requests, board, passed)


@contextmanager
def _naming_full_disk(home: Home) -> Iterator[None]:
    """Raise DiskFull where server or cluster fail while the disk is full: their own errors do not say so."""
    try:
        yield
    except (DiskFull, UsageError):
        raise
    except Exception as error:
        named = named_before(error)
        if named is not None:
            raise DiskFull(str(named)) from error
        if is_full(error) or has_no_room(home.path):
            raise disk_full("what Prefect's server, Dask and the run keep", home.path) from error
        raise


@contextmanager
def _unlogged_logging() -> Iterator[None]:
    """Drop complaints about log records that could not be kept: a full disk, which ends the run, is their cause."""
    before, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        yield
    finally:
        logging.raiseExceptions = before


def _already_finished(home: Home, plans: Sequence[RunPlan]) -> NightOutcome:
    from tasks.planning.publishing import publish_to_warehouse, unpublished

    new_prices = [keep_models(plan) for plan in plans]
    records = [record for plan in plans if (record := plan.record()) is not None]
    if any(new_prices) or unpublished(home, records):
        publish_to_warehouse(home, [record.run_id for record in records])
    night_id = max(record.night_id for record in records)
    return NightOutcome(night_id, tuple(as_published(home, [finished_report(plan) for plan in plans])))


def _run_flow(home: Home, requests: Sequence[EvaluationRequest], board: Board, passed: Sequence[str]) -> NightOutcome:
    from flows.orchestration.server import starting_prefect_server

    board.stage("night", "start Prefect server and workers")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    with starting_prefect_server(home.path, secret_names=key_names(requests)) as pending:
        from flows.night.runtime import night

        with night(home, max(r.workers for r in requests), board, key_names(requests)) as tonight:
            tonight.start_checks()
            tonight.skip_preflight(passed)
            from flows.nightly import RunsFailed, nightly  # seconds, in which the server and the checks are starting

            tonight.client()
            server = pending.wait_ready()
            print(f"Prefect UI while this runs: {server.ui_url}", file=sys.stderr)
            with suppress(RunsFailed):  # told by their reports
                nightly(requests=list(requests), home=str(home.path))
            return NightOutcome(tonight.night_id, tuple(tonight.reports))
