"""Flow of a night: evaluate every model on every benchmark, then publish once."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import Flow

from flows.evaluate_model import evaluate_model
from flows.night.checkpoints import night_requests
from flows.night.config import NightlyConfig, read_config, require_known_names
from flows.night.preflight.checks import require_live_canary
from flows.night.preflight.notification_destinations import find_collector, require_places
from flows.night.reporting.destinations import Notify
from flows.night.reporting.notifications import (
    begin_event_record,
    report_crash,
    report_events,
    report_runs,
    report_summary,
    reporting_failure,
)
from flows.night.reporting.run_record import record_night, record_publication
from flows.night.run_queue import RUNS_AT_ONCE, QueuedRun, baselines_first, side_by_side
from flows.night.session import Session, open_session
from flows.night.spending import require_prices
from flows.night.subsample import subsampled
from flows.orchestration.artifacts import show_results
from flows.orchestration.inner_flows import (
    cancel_what_it_began,
    completed_as,
    pausable,
    plain_flow,
)
from flows.orchestration.packages import verify_packages
from flows.publish_results import publish_results
from flows.site.pages import address, night_page
from flows.site.target import SiteTarget, write_to_target
from flows.stage_benchmarks import stage_benchmarks
from flows.text.results import compared_rows, result_markdown
from flows.text.work import withheld_markdown, work_markdown
from schemas.errors import DiskFull, ParleyError, RunsFailed
from schemas.lake.records import utc_now
from schemas.night.budget import Budget
from tasks.planning.reporting.report import RunReport, as_published, failed_report, works
from tasks.planning.request import EvaluationRequest, key_names
from tasks.storage.home import Home, find_home, naming_full_disk

_log = logging.getLogger("parley.nightly")


@dataclass(frozen=True)
class _Options:
    """What a night does besides evaluating its requests. See the parameters of `nightly`."""

    notify: Notify | None
    budget: Budget | None
    runs_at_once: int
    site: SiteTarget | None
    telemetry: str | None


def _night_name() -> str:
    """Return the name of the flow run.

    It contains the title of a single run, or else the numbers of models and settings, and `new
    checkpoints` if the configuration has sources.
    """
    from prefect.runtime import flow_run

    requests_given, config = flow_run.parameters.get("requests"), flow_run.parameters.get("config")
    requests = _requests(requests_given, config)
    models, benchmarks = (
        {request.model.label for request in requests},
        {request.benchmark.name for request in requests},
    )
    parts = ["night"]
    if len(requests) == 1:
        parts.append(requests[0].title)
    elif requests:
        parts.append(f"{_counted(models, 'model')} on {_counted(benchmarks, 'setting')}")
    if requests_given is None and read_config(Path(config)).sources:
        parts.append("new checkpoints")
    return " · ".join(parts)


def _counted(named: set[str], kind: str) -> str:
    return min(named) if len(named) == 1 else f"{len(named)} {kind}s"


def night_flow(session: Session | None = None) -> Flow[..., list[RunReport]]:
    """Return the flow of a night.

    The flow is a closure: Prefect stores parameters as JSON, which a session cannot become.

    Args:
        session: The caller's session. None for a deployed night, which opens one itself.
    """

    @plain_flow(
        name="nightly",
        flow_run_name=_night_name,
        on_cancellation=[cancel_what_it_began],
        on_crashed=[report_crash],
    )
    def nightly(
        config: str = "nightly.yaml",
        requests: Sequence[EvaluationRequest] | None = None,
        home: str | None = None,
        notify: Notify | None = None,
        budget: Budget | None = None,
        runs_at_once: int = RUNS_AT_ONCE,
        backfill: bool = False,
        site: SiteTarget | None = None,
        telemetry: str | None = None,
    ) -> list[RunReport]:
        """Run the `requests`, or those of the configuration file.

        A configuration sets `notify`, `budget`, `runs_at_once`, `site` and `telemetry` itself.

        Args:
            config: Path of a configuration. It is read if there are no `requests`.
            requests: One request per run.
            home: Folder of all data. `$PARLEY_HOME` takes precedence.
            notify: Which events to notify about, and where.
            budget: Caps at which the night stops.
            runs_at_once: Maximum number of parallel runs. With 1, runs execute one after another.
            backfill: Evaluate every pending checkpoint of the sources, ignoring `at_most`.
            site: Where to write the site at the end, for links in messages.
            telemetry: Base URL of the OpenTelemetry collector. None: the URL in the environment, if
                any.

        Returns:
            One report per run. Empty if no checkpoint has pending evaluations.

        Raises:
            NightVoid: A cheat passed or a reference solution failed (tested by configured nights).
            DiskFull: The disk is full. The next night publishes the finished work.
            RunsFailed: A run could not start or was stopped by an error. The other runs are
                published.
            ParleyError: Nothing was published.
        """
        verify_packages()
        settings = read_config(Path(config), check_names=False) if requests is None else None
        place = find_home(home or (settings.home if settings else None))
        options = (
            _options_of(settings, Path(config))
            if settings
            else _Options(
                Notify.model_validate(notify) if notify else None,
                Budget.model_validate(budget) if budget else None,
                runs_at_once,
                SiteTarget.model_validate(site) if site else None,
                telemetry,
            )
        )
        with reporting_failure(options.notify):
            if settings:
                chosen = _configured_requests(settings, Path(config), place, backfill)
            else:
                chosen = _requests(requests, config)
                require_places(options.notify, place, _log.warning)
            if not chosen:
                if options.notify is not None:
                    begin_event_record(options.notify, place)
                    report_events(options.notify, place, options.site.url if options.site else None)
                return []
            own = nullcontext(session) if session else open_session(place, None, key_names(chosen))
            with pausable(), _in_turn(place), own as active:
                return _play(active, chosen, options)

    return nightly


nightly = night_flow()
"""The flow that `prefect.yaml` deploys."""


def _options_of(settings: NightlyConfig, config: Path) -> _Options:
    site = settings.site_at(config.absolute().parent)
    return _Options(
        settings.notify, settings.budget, settings.runs_at_once, site, settings.telemetry
    )


def _configured_requests(
    settings: NightlyConfig, config: Path, home: Home, backfill: bool
) -> Sequence[EvaluationRequest]:
    """Return the pending requests of a configuration, which fit its budget.

    The sandboxes pass the canary.
    """
    require_known_names(settings, config)
    folder = config.absolute().parent
    requests = night_requests(home, settings, folder, _log.warning, backfill=backfill)
    if requests:
        requests, subsample = subsampled(home, requests, settings.budget)
        canary = require_live_canary(request.sandbox for request in requests)
        if subsample:
            _log.warning(subsample)
        for line in canary:
            _log.info(line)
    return requests


def _requests(requests: Sequence[Any] | None, config: str) -> tuple[EvaluationRequest, ...]:
    """Return `requests`, or the configuration's requests if `requests` is None."""
    if requests is not None:
        return tuple(EvaluationRequest.model_validate(request) for request in requests)
    return read_config(Path(config), check_names=False).requests(Path(config).absolute().parent)


def _play(
    session: Session, requests: Sequence[EvaluationRequest], options: _Options
) -> list[RunReport]:
    started_at, night_id = utc_now(), session.night_id
    _prepare(session, requests, options)
    over = _end_work(session, _evaluate_all(session, requests, options.runs_at_once))
    times = session.board.times(night_id)
    record_night(session.home, night_id, started_at, session.reports, session.spent, times)
    _publish(session, options.notify)
    record_publication(session.home, night_id, session.board.times(night_id)[len(times) :])
    _report(session, options)
    return _result(session.reports, over)


def _result(reports: list[RunReport], over: str | None) -> list[RunReport]:
    """Return the reports. Prefect's UI shows a night that a cap stopped as Incomplete.

    Args:
        reports: Reports of all runs.
        over: The cap that stopped the night, if any.

    Raises:
        RunsFailed: A run failed. The other runs are published.
    """
    failed = [report for report in reports if report.status == "failed"]
    if failed:
        raise RunsFailed("; ".join(f"{report.title}: {report.reason}" for report in failed))
    if over is None:
        return reports
    reason = f"{over}. Finished work is stored, and the next night resumes it"
    return completed_as("Incomplete", reason, reports)


def _prepare(session: Session, requests: Sequence[EvaluationRequest], options: _Options) -> None:
    """Set caps and telemetry, stage the given raw data, and require the prices that caps need."""
    session.set_budget(options.budget)
    session.export_to(find_collector(session.home, options.telemetry))
    _stage_given_data(session, requests)
    require_prices(session.unfinished(requests) if options.budget else (), options.budget)


def _stage_given_data(session: Session, requests: Sequence[EvaluationRequest]) -> None:
    """Stage each raw dataset of the night once.

    An error is ignored here: the runs of the dataset fail later, with the same error.
    """
    datasets = {
        (r.benchmark.name.partition(".")[0], r.benchmark.data, r.benchmark.dataset_version)
        for r in requests
        if r.benchmark.data
    }
    for benchmark, data, version in sorted(datasets, key=str):
        with suppress(ParleyError):
            stage_benchmarks(session.home, session.datasets, benchmark, str(data), version)


def _evaluate_all(
    session: Session, requests: Sequence[EvaluationRequest], at_once: int
) -> list[RunReport]:
    """Return one report per request, in their order."""

    def evaluate(run: QueuedRun) -> RunReport:
        return _evaluate(session, requests[run.number], run.number, run)

    if len(requests) == 1:
        return [_evaluate(session, requests[0], 0)]
    if at_once > 1:
        return side_by_side(session, requests, at_once, evaluate)
    session.servers.expect(session.unfinished(requests))
    reports = {
        number: _evaluate(session, requests[number], number)
        for number in baselines_first(session, requests)
    }
    return [reports[number] for number in range(len(requests))]


def _evaluate(
    session: Session, request: EvaluationRequest, number: int, run: QueuedRun | None = None
) -> RunReport:
    try:
        with naming_full_disk("the results of this run", session.home.path):
            return evaluate_model(session, request, run, number)
    except DiskFull:
        raise  # The other runs would fail too, and so would every notification about them.
    except ParleyError as error:
        _log.error("%s: %s", request.title, error)
        return failed_report(request, session.plan_of(request), session.night_id, str(error))


def _end_work(session: Session, reports: Sequence[RunReport]) -> str | None:
    """End the model servers and charge the runs for their hours.

    Return the cap that stopped the night, if any.
    """
    session.servers.end()
    session.reports = [_with_served_hours(session, report) for report in reports]
    is_cut = any(report.status == "incomplete" for report in reports)
    over = session.why_over() if is_cut else None
    session.spent = session.spending.account() if session.spending else ()
    session.board.end()
    return over


def _with_served_hours(session: Session, report: RunReport) -> RunReport:
    """Add the cost of the run's model servers to its report.

    The cost is known only after the servers have ended, because a server's idle time counts for its
    latest run.
    """
    cost = session.servers.hours.usd_hourly(report.run_id)
    if report.work is None or cost is None:
        return report
    return report.model_copy(update={"work": report.work.model_copy(update={"usd_hourly": cost})})


def _publish(session: Session, notify: Notify | None) -> None:
    """Publish all runs, and update the reports to what the warehouse shows."""
    session.board.stage("night", "publish")
    session.await_preparation()
    session.servers.measure()
    if notify is not None:
        begin_event_record(notify, session.home)
    publishable = [report.run_id for report in session.reports if report.run_id]
    publish_results(publishable, str(session.home.path), call=session.in_warehouse_process)
    session.board.end()
    session.reports = as_published(session.home, session.reports)


def _report(session: Session, options: _Options) -> None:
    """Show the results in the site and in Prefect's UI, and send notifications."""
    home, reports, night_id = session.home, session.reports, session.night_id
    run_ids = [report.run_id for report in reports if report.run_id and report.status != "failed"]
    tables = (
        result_markdown(home, run_ids),
        withheld_markdown(reports),
        work_markdown(works(reports)),
    )
    markdown = "\n\n".join(table for table in tables if table)
    compared = compared_rows(home, run_ids)
    _write_site(session, options.site)
    site_url = options.site.url if options.site else None
    show_results(night_id, markdown, compared, home, reports, site_url)
    if options.notify is not None:
        site_page = address(site_url, night_page(night_id)) if site_url else None
        report_runs(options.notify, home, reports, site_page)
        report_events(options.notify, home, site_url)
        report_summary(options.notify, night_id, compared, site_url)


def _write_site(session: Session, site: SiteTarget | None) -> None:
    """Write the site, if the night has one.

    If it cannot be written, log the reason and continue.
    """
    if site is None:
        return
    session.board.stage("night", "write site")
    try:
        write_to_target(session.home, site)
    except (OSError, ParleyError) as error:
        _log.warning("The site could not be written: %s", error)
    session.board.end()


def _in_turn(home: Home) -> AbstractContextManager[None]:
    """Run deployed nights of one home one after another.

    Prefect starts the next night while a cancelled one is still ending.
    """
    from prefect.runtime import deployment

    return home.turn("deployed-night") if deployment.id else nullcontext()
