"""One invocation from the command line: decide what is left, start only what that needs, run the nightly flow."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from flows.preflight import preflight
from flows.progress import Board
from schemas.errors import ParleyError
from tasks.planning.finished import finished_report
from tasks.planning.models import keep_models
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.report import RunReport
from tasks.planning.request import EvaluationRequest, key_names
from tasks.storage.home import Home


@dataclass(frozen=True)
class NightOutcome:
    night_id: str
    reports: tuple[RunReport, ...]


def run_night(home: Home, requests: Sequence[EvaluationRequest], board: Board) -> NightOutcome:
    """Run the requests; where all of them are finished, start nothing and tell how they ended.

    Raises:
        UsageError: a request cannot be planned, or another process is at work on the only run; nothing was started.
        InfraError: the only request's sandbox or endpoint is not usable, or the Prefect server does not start.
    """
    plans = [plan_run(request, home) for request in requests]
    if all(plan.is_finished() for plan in plans):
        return _already_finished(home, plans)
    if len(plans) == 1:
        preflight(plans[0])
        with home.run_lock(plans[0].run_id):
            pass  # held by another process: said now, not after server and cluster were started
    return _run_flow(home, requests, board)


def _already_finished(home: Home, plans: Sequence[RunPlan]) -> NightOutcome:
    from tasks.storage.publishing import publish_to_warehouse, unpublished

    new_prices = [keep_models(plan) for plan in plans]
    records = [record for plan in plans if (record := plan.record()) is not None]
    if any(new_prices) or unpublished(home, records):
        publish_to_warehouse(home, [record.run_id for record in records])
    night_id = max(record.night_id for record in records)
    return NightOutcome(night_id, tuple(finished_report(plan) for plan in plans))


def _run_flow(home: Home, requests: Sequence[EvaluationRequest], board: Board) -> NightOutcome:
    from flows.prefect_server import starting_prefect_server

    board.stage("night", "start Prefect server and workers")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    with starting_prefect_server(home.path, secret_names=key_names(requests)) as pending:
        from flows.nightly import nightly
        from flows.runtime import night

        with night(home, max(r.workers for r in requests), board, key_names(requests)) as tonight:
            tonight.client()
            server = pending.wait_ready()
            print(f"Prefect UI while this runs: {server.ui_url}", file=sys.stderr)
            try:
                nightly(requests=list(requests), home=str(home.path))
            except ParleyError:
                if not tonight.reports:
                    raise
            return NightOutcome(tonight.night_id, tuple(tonight.reports))
