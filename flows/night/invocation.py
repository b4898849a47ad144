"""One invocation of the command line.

It plans the requests, starts the services that they need, and runs the flow.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.night.preflight.served_models import require_same_models
from flows.night.reporting.progress import Board
from flows.orchestration.dask_cluster import named_address
from flows.orchestration.processes import remove_abandoned
from sandbox.host import resource_limits
from sandbox.host.abandoned import end_abandoned
from schemas.errors import DiskFull, RunsFailed, UsageError
from schemas.night.budget import Budget, CapSpent
from tasks.language.servers.vllm_replica import end_orphans
from tasks.planning.dataset import DatasetCache, files_lines
from tasks.planning.participants.models import keep_models
from tasks.planning.plan import RunPlan, plan_night
from tasks.planning.reporting.report import (
    RunReport,
    as_published,
    finished_report,
    keep_comparison_rule,
)
from tasks.planning.request import BuildRequest, EvaluationRequest, key_names
from tasks.storage.home import Home, disk_full, has_no_room, is_full, named_before, require_room
from tasks.worker.collector import not_collecting

if TYPE_CHECKING:
    from flows.night.reporting.destinations import Notify
    from flows.site.target import SiteTarget
    from tasks.planning.builds.built_folder import BuildReport


@dataclass(frozen=True)
class NightOutcome:
    """Reports of a night's runs, in the order of their requests, and the budget's use."""

    night_id: str
    reports: tuple[RunReport, ...]
    spent: tuple[CapSpent, ...] = ()
    """Amount used of each budget cap."""


def run_night(
    home: Home,
    requests: Sequence[EvaluationRequest],
    board: Board,
    *,
    with_canary: bool = False,
    notify: "Notify | None" = None,
    site: "SiteTarget | None" = None,
    budget: Budget | None = None,
    runs_at_once: int | None = None,
    telemetry: str | None = None,
) -> NightOutcome:
    """Run the requests. If all runs are finished already, start nothing and return their results.

    Args:
        home: Parley's data folder.
        requests: One request per run.
        board: Progress display.
        with_canary: Test the sandboxes with known cheats and reference solutions first.
        notify: Which events to notify about, and where. A night with no work sends no notification.
        site: Where to write the site at the end.
        budget: Caps at which the night stops.
        runs_at_once: Maximum number of parallel runs, 1 or more. None: the flow's default.
        telemetry: Base URL of the OpenTelemetry collector that receives metrics. None: the
            collector that the environment names, if any.

    Raises:
        NightVoid: A known cheat passed, or a reference solution failed. Nothing was started.
        UsageError: A request cannot be planned, or another process runs the only run. Nothing was
            started.
        DiskFull: The disk was full, at the start or later.
        InfraError: The only request's sandbox or endpoint is not usable, or the Prefect server does
            not start.
    """
    _remove_leftovers(home)
    datasets = DatasetCache()
    plans = plan_night(requests, home, datasets)
    if all(plan.is_finished() for plan in plans):
        return _already_finished(home, plans)
    collector = check_night(home, plans, budget, telemetry)
    checked = _preflight(home, plans, board, with_canary=with_canary)
    options = {"notify": notify, "site": site, "budget": budget, "telemetry": collector}
    if runs_at_once:
        options["runs_at_once"] = runs_at_once
    with _naming_full_disk(home), _unlogged_logging():
        return _run_flow(home, plans, datasets, board, checked, options)


def run_build(
    home: Home, request: BuildRequest, board: Board, budget: Budget | None = None
) -> "BuildReport":
    """Build a dataset.

    The call fails at once if the disk is full, another process builds the dataset, or an endpoint
    of a new build does not answer.

    Raises:
        UsageError: The build cannot be planned, another process works on it, or its folder contains
            something else.
        DiskFull: The disk was full, at the start or later.
        InfraError: An endpoint, the sandbox or the Prefect server is not usable. All answers are
            stored.
        BudgetSpent: A cap is reached. All answers are stored.
    """
    from flows.night.preflight.checks import preflight_build
    from flows.orchestration.server import starting_prefect_server
    from tasks.planning.builds.build_plan import plan_build
    from tasks.planning.builds.built_folder import require_place

    _remove_leftovers(home)
    with _naming_full_disk(home), _unlogged_logging():
        plan = plan_build(request, home)
        named_address()
        require_room(home.path)
        require_place(plan)
        with home.build_lock(plan.build_id):
            if not plan.is_begun:
                preflight_build(plan)
        board.stage(request.what, "start Prefect server")
        _quiet_prefect()
        with starting_prefect_server(home.path, secret_names=key_names([request])) as pending:
            from flows.build_dataset import build_dataset
            from flows.night.session import open_session

            with open_session(home, board, key_names([request])) as session:
                session.set_budget(budget)
                server = pending.wait_ready()
                print(f"Prefect UI while this runs: {server.ui_url}", file=sys.stderr)
                with server.flow_settings():
                    report = build_dataset(session, plan)
                pending.leave()
                return report


def _quiet_prefect() -> None:
    """Keep Prefect's log off the terminal. Call this before importing Prefect."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")


def _remove_leftovers(home: Home) -> None:
    remove_abandoned(home.path / "dask")
    remove_abandoned(home.path / "spending")
    remove_abandoned(home.path / "calls")
    end_abandoned()
    resource_limits.remove_abandoned()
    end_orphans(home.logs)


def check_night(
    home: Home, plans: Sequence[RunPlan], budget: Budget | None, telemetry: str | None
) -> str | None:
    """Check what all runs of a night share, and return the URL of the collector of metrics, if any.

    Raises:
        ConfigError: The budget needs a price or a shared folder, the address of the cluster is
            invalid, or metrics cannot be sent.
    """
    from flows.night.preflight.notification_destinations import find_collector

    if budget is not None:
        from flows.night.preflight.checks import require_budget_is_counted
        from flows.night.spending import require_prices

        require_budget_is_counted(home, budget)
        require_prices([plan for plan in plans if not plan.is_finished()], budget)
    named_address()
    return find_collector(home, telemetry)


def _preflight(
    home: Home, plans: Sequence[RunPlan], board: Board, *, with_canary: bool
) -> list[str]:
    """Fail before the server and the cluster start, and return the ids of the checked runs."""
    from tasks.planning.environment_check import environment_lines

    require_room(home.path)
    lines = files_lines((p.benchmark.name, p.staged) for p in plans if p.request.benchmark.data)
    lines += [line for plan in plans for line in environment_lines(plan.dataset)]
    for line in dict.fromkeys(
        [*lines, *(plan.skipped.skipped_line for plan in plans if plan.skipped)]
    ):
        print(line, file=sys.stderr)
    if with_canary:
        from flows.night.preflight.checks import require_live_canary

        board.stage("night", "canary")
        for line in require_live_canary(plan.request.sandbox for plan in plans):
            print(line, file=sys.stderr)
    if len(plans) > 1:
        return []
    from flows.night.preflight.checks import preflight

    preflight(plans[0])
    if not with_canary:  # A configured night waits for the lock instead.
        with home.run_lock(plans[0].run_id):
            # Fail here if another process holds the lock.
            pass
    return [plans[0].run_id]


@contextmanager
def _naming_full_disk(home: Home) -> Iterator[None]:
    """Raise DiskFull if the server or the cluster fails while the disk is full.

    Their own errors do not mention the disk.
    """
    try:
        yield
    except (DiskFull, UsageError):
        raise
    # Any error: Prefect, Dask and SQLite fail in different ways when the disk is full. Other errors
    # stay unchanged.
    except Exception as error:
        named = named_before(error)
        if named is not None:
            raise DiskFull(str(named)) from error
        if is_full(error) or has_no_room(home.path):
            raise disk_full("the data of Prefect's server, Dask and the run", home.path) from error
        raise


@contextmanager
def _unlogged_logging() -> Iterator[None]:
    """Suppress the tracebacks that `logging` prints for records that it cannot write.

    A full disk causes them, and the run ends with its own error about that.
    """
    before, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        yield
    finally:
        logging.raiseExceptions = before


def _already_finished(home: Home, plans: Sequence[RunPlan]) -> NightOutcome:
    from tasks.planning.reporting.publishing import publish_to_warehouse, unpublished_runs

    for plan in plans:
        require_same_models(plan)
    changed = [keep_models(plan.lake, plan.models) | keep_comparison_rule(plan) for plan in plans]
    records = [record for plan in plans if (record := plan.record()) is not None]
    if any(changed) or unpublished_runs(home, records):
        publish_to_warehouse(home, [record.run_id for record in records])
    night_id = max(record.night_id for record in records)
    return NightOutcome(
        night_id, tuple(as_published(home, [finished_report(plan) for plan in plans]))
    )


def _run_flow(
    home: Home,
    plans: Sequence[RunPlan],
    datasets: DatasetCache,
    board: Board,
    checked: Sequence[str],
    options: Mapping[str, object],
) -> NightOutcome:
    from flows.orchestration.server import starting_prefect_server

    requests = [plan.request for plan in plans]
    board.stage("night", "start Prefect server and workers")
    _quiet_prefect()
    with starting_prefect_server(home.path, secret_names=key_names(requests)) as pending:
        from flows.night.session import open_session

        with open_session(home, board, key_names(requests), plans, datasets) as session:
            session.start_warehouse_process()
            session.skip_preflight(checked)
            with not_collecting():
                session.start_cluster()
                # This import takes a second, while the server, the checks and the workers import.
                from flows.nightly import night_flow

            session.client()
            server = pending.wait_ready()
            print(f"Prefect UI while this runs: {server.ui_url}", file=sys.stderr)
            # The reports contain the failures.
            with server.flow_settings(), suppress(RunsFailed):
                night_flow(session)(requests=requests, home=str(home.path), **options)
            pending.leave()
            return NightOutcome(session.night_id, tuple(session.reports), session.spent)
