"""Flow of a night: evaluate every model on every benchmark, then publish once."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

from prefect import flow
from prefect.states import Completed

from flows.evaluate_model import evaluate_model
from flows.night.checkpoints import night_requests
from flows.night.config import read_config, require_known_names
from flows.night.preflight.canary import require_live_canary
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
from flows.night.reporting.run_record import failed_report
from flows.night.runtime import Night, night
from flows.night.side_by_side import RUNS_AT_ONCE, baselines_first, plan_of, side_by_side
from flows.night.spending import require_prices
from flows.night.subsample import subsampled
from flows.orchestration.artifacts import show_results
from flows.orchestration.inner_flows import cancel_what_it_began, numbered, pausable
from flows.orchestration.packages import verify_packages
from flows.publish_results import publish_results, published_count
from flows.site.links import night_address
from flows.site.target import SiteTarget, write_to_target
from flows.stage_benchmarks import stage_benchmarks
from flows.text.results import compared_rows, result_markdown
from flows.text.work import withheld_markdown, work_markdown
from schemas.errors import DiskFull, ParleyError, RunsFailed
from schemas.lake.records import NightRecord, utc_now
from schemas.night.budget import Budget, CapSpent
from schemas.night.work import FailedRun, StageTime
from schemas.outside.display import plain_line
from tasks.planning.plan import RunPlan
from tasks.planning.reporting.report import RunReport, as_published, works
from tasks.planning.request import EvaluationRequest, key_names
from tasks.storage.home import Home, find_home, naming_full_disk
from tasks.storage.parquet_store import Lake

_log = logging.getLogger("parley.nightly")
_NAMES = {"run_id", "title", "setting", "model"}
"""Fields that both `RunReport` and `FailedRun` have."""


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


@flow(
    name="nightly",
    flow_run_name=_night_name,
    validate_parameters=False,
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
        RunsFailed: A run could not start or was stopped by an error. The other runs are published.
        ParleyError: Nothing was published.
    """
    verify_packages()
    if requests is not None:
        notify = Notify.model_validate(notify) if notify else None
        with reporting_failure(notify):
            require_places(notify, find_home(home), _log.warning)
            run_requests = [EvaluationRequest.model_validate(request) for request in requests]
            caps = Budget.model_validate(budget) if budget else None
            pages = SiteTarget.model_validate(site) if site else None
            collector = find_collector(find_home(home), telemetry)
            return _as_state(
                *_run_night(run_requests, home, notify, caps, runs_at_once, pages, collector)
            )
    settings = read_config(Path(config), check_names=False)
    home = home or settings.home
    with reporting_failure(settings.notify):
        require_known_names(settings, Path(config))
        folder = Path(config).absolute().parent
        pages = settings.site_at(folder)
        requests = night_requests(
            find_home(home), settings, folder, _log.warning, backfill=backfill
        )
        if not requests:
            begin_event_record(settings.notify, find_home(home))
            report_events(settings.notify, find_home(home), pages.url if pages else None)
            return []
        requests, subsample = subsampled(find_home(home), requests, settings.budget)
        if subsample:
            _log.warning(subsample)
        for line in require_live_canary(request.sandbox for request in requests):
            _log.info(line)
        caps, at_once = settings.budget, settings.runs_at_once
        collector = find_collector(find_home(home), settings.telemetry)
        return _as_state(
            *_run_night(
                requests, home or settings.home, settings.notify, caps, at_once, pages, collector
            )
        )


def _requests(requests: Sequence[Any] | None, config: str) -> tuple[EvaluationRequest, ...]:
    """Return `requests`, or the configuration's requests if `requests` is None."""
    if requests is not None:
        return tuple(EvaluationRequest.model_validate(request) for request in requests)
    return read_config(Path(config), check_names=False).requests(Path(config).absolute().parent)


def _as_state(reports: list[RunReport], over: str | None) -> list[RunReport]:
    """Return the reports in the form that the flow returns to Prefect.

    Prefect's UI shows a night that stopped at a cap as Incomplete, with the reason.
    """
    if over is None:
        return reports
    message = f"{over}. Finished work is stored, and the next night resumes it"
    return cast(
        "list[RunReport]",
        Completed(name="Incomplete", message=plain_line(message, 1000), data=reports),
    )


def _run_night(
    requests: Sequence[EvaluationRequest],
    home: str | None,
    notify: Notify | None,
    budget: Budget | None,
    runs_at_once: int,
    site: SiteTarget | None,
    collector: str | None,
) -> tuple[list[RunReport], str | None]:
    """Return the reports of all runs, and the cap that stopped the night, if any."""
    place, n_workers = find_home(home), max(request.workers for request in requests)
    with (
        pausable(),
        _in_turn(place),
        night(place, n_workers, secret_names=key_names(requests)) as tonight,
    ):
        started = utc_now()
        tonight.set_budget(budget)
        tonight.export_to(collector)
        _stage_given_data(requests, tonight.home)
        require_prices(_plans(tonight, requests) if budget else (), budget)
        reports = _evaluate_all(tonight, requests, runs_at_once)
        tonight.servers.end()
        tonight.reports = reports = [_with_served_hours(tonight, report) for report in reports]
        over = next(
            (tonight.why_over() for report in reports if report.status == "incomplete"), None
        )
        spent = tonight.spent = tonight.spending.account() if tonight.spending else ()
        tonight.board.end()
        times = tonight.board.times(tonight.night_id)
        record_night(tonight.home, tonight.night_id, started, reports, spent, times)
        tonight.board.stage("night", "publish")
        tonight.await_preparation()
        tonight.servers.measure()
        begin_event_record(notify, tonight.home)
        publishable = [report.run_id for report in reports if report.run_id]
        publish_results(publishable, str(tonight.home.path), call=tonight.in_warehouse_process)
        tonight.board.end()
        _record_publication(tonight, len(times))
        tonight.reports = reports = as_published(tonight.home, reports)
        run_ids = [
            report.run_id for report in reports if report.run_id and report.status != "failed"
        ]
        tables = (
            result_markdown(tonight.home, run_ids),
            withheld_markdown(reports),
            work_markdown(works(reports)),
        )
        markdown = "\n\n".join(table for table in tables if table)
        compared = compared_rows(tonight.home, run_ids)
        _write_site(tonight, site)
        site_url = site.url if site else None
        show_results(tonight.night_id, markdown, compared, tonight.home, reports, site_url)
        report_runs(notify, tonight.home, reports, night_address(site_url, tonight.night_id))
        report_events(notify, tonight.home, site_url)
        report_summary(notify, tonight.night_id, compared, site_url)
        failed = [report for report in reports if report.status == "failed"]
        if failed:
            raise RunsFailed("; ".join(f"{report.title}: {report.reason}" for report in failed))
        return reports, over


def _with_served_hours(tonight: Night, report: RunReport) -> RunReport:
    """Add the cost of the run's model servers to its report.

    The cost is known only after the servers have ended, because a server's idle time counts for its
    latest run.
    """
    cost = tonight.servers.hours.usd_hourly(report.run_id)
    if report.work is None or cost is None:
        return report
    return report.model_copy(update={"work": report.work.model_copy(update={"usd_hourly": cost})})


def _write_site(tonight: Night, site: SiteTarget | None) -> None:
    """Write the site, if the night has one.

    If it cannot be written, log the reason and continue.
    """
    if site is None:
        return
    tonight.board.stage("night", "write site")
    try:
        write_to_target(tonight.home, site)
    except (OSError, ParleyError) as error:
        _log.warning("The site could not be written: %s", error)
    tonight.board.end()


def _plans(tonight: Night, requests: Sequence[EvaluationRequest]) -> Iterator[RunPlan]:
    """Yield the plans of unfinished runs.

    A request that cannot be planned is skipped here: its own run fails later, with the error.
    """
    for request in requests:
        with suppress(ParleyError):
            plan = tonight.plan(request)
            if not plan.is_finished():
                yield plan


def _in_turn(home: Home) -> AbstractContextManager[None]:
    """Run deployed nights of one home one after another.

    Prefect starts the next night while a cancelled one is still ending.
    """
    from prefect.runtime import deployment

    return home.turn("deployed-night") if deployment.id else nullcontext()


def _stage_given_data(requests: Sequence[EvaluationRequest], home: Home) -> None:
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
            stage_benchmarks(benchmark, str(data), version, home=str(home.path))


def _evaluate_all(
    tonight: Night, requests: Sequence[EvaluationRequest], at_once: int
) -> list[RunReport]:
    """Return one report per request, in their order."""
    if len(requests) == 1 or at_once == 1:
        tonight.servers.expect(_served_plans(tonight, requests) if len(requests) > 1 else ())
        reports = {
            number: _evaluate(tonight, requests[number])
            for number in baselines_first(tonight, requests)
        }
        return [reports[number] for number in range(len(requests))]

    def evaluate(number: int) -> RunReport:
        with numbered(evaluate_model, number):
            return _evaluate(tonight, requests[number])

    return side_by_side(tonight, requests, at_once, evaluate)


def _served_plans(tonight: Night, requests: Sequence[EvaluationRequest]) -> Iterator[RunPlan]:
    """Yield the plans of unfinished runs with a model that Parley serves."""
    for request in requests:
        plan = (
            plan_of(tonight, request)
            if any(model.is_served_here for model in request.models)
            else None
        )
        if plan is not None and not plan.is_finished():
            yield plan


def _evaluate(tonight: Night, request: EvaluationRequest) -> RunReport:
    try:
        with naming_full_disk("the results of this run", tonight.home.path):
            return evaluate_model(request, home=str(tonight.home.path))
    except DiskFull:
        raise  # The other runs would fail too, and so would every notification about them.
    except ParleyError as error:
        _log.error("%s: %s", request.title, error)
        return failed_report(request, plan_of(tonight, request), tonight.night_id, str(error))


def record_night(
    home: Home,
    night_id: str,
    started: str,
    reports: Sequence[RunReport],
    budget: Sequence[CapSpent] = (),
    times: Sequence[StageTime] = (),
) -> None:
    """Write a night's runs, the amount spent of each cap, and the stage times to the lake."""
    row = NightRecord(
        night_id=night_id,
        started_at=started,
        finished_at=utc_now(),
        run_ids=tuple(report.run_id for report in reports if report.run_id),
        n_published=published_count(reports),
        n_withheld=sum(report.status == "withheld" for report in reports),
        work=works(reports),
        budget=tuple(budget),
    )
    lake = Lake(home.lake)
    lake.write_part("nights", [row], "0", night_id=night_id)
    lake.write_part("stage_times", times, "0", night_id=night_id)
    if failed := tuple(_failed(night_id, reports)):
        lake.write_part("failed_runs", failed, "0", night_id=night_id)


def _failed(night_id: str, reports: Sequence[RunReport]) -> Iterator[FailedRun]:
    for report in reports:
        if report.status == "failed":
            yield FailedRun(
                night_id=night_id, reason=report.reason or "", **report.model_dump(include=_NAMES)
            )


def _record_publication(tonight: Night, n_kept: int) -> None:
    """Record how long the publication took.

    A publication cannot contain its own duration, so the lake has a table for it.
    """
    times = tonight.board.times(tonight.night_id)[n_kept:]
    Lake(tonight.home.lake).write_part("publication_times", times, "0", night_id=tonight.night_id)
