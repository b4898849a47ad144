"""Flow: a whole night. Every model on every benchmark, then one publication."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from prefect import flow

from flows.evaluate_model import evaluate_model
from flows.night.canary import require_live_canary
from flows.night.config import read_config
from flows.night.runtime import Night, night
from flows.orchestration.artifacts import show_results
from flows.orchestration.packages import verify_packages
from flows.publish_results import publish_results, published_count
from flows.stage_benchmarks import stage_benchmarks
from flows.text.results import result_markdown
from flows.text.work import work_markdown
from schemas.errors import DiskFull, ParleyError
from schemas.run import NightRecord
from tasks.planning.finished import as_published
from tasks.planning.report import RunReport, works
from tasks.planning.request import EvaluationRequest, key_names
from tasks.storage.clock import utc_now
from tasks.storage.disk import naming_full_disk
from tasks.storage.home import Home, find_home
from tasks.storage.parquet_store import Lake

_log = logging.getLogger("parley.nightly")


class RunsFailed(ParleyError):
    """Some runs of the night failed; the others are published, and all are reported."""


def _night_name() -> str:
    """Name of the night: its one evaluation, or their number."""
    from prefect.runtime import flow_run

    asked = flow_run.parameters.get("requests")
    if not asked:
        return f"night · {flow_run.parameters.get('config')}"
    titles = [EvaluationRequest.model_validate(request).title for request in asked]
    return f"night · {titles[0]}" if len(titles) == 1 else f"night · {len(titles)} runs"


@flow(name="nightly", flow_run_name=_night_name, validate_parameters=False)
def nightly(
    config: str = "nightly.yaml", requests: Sequence[EvaluationRequest] | None = None, home: str | None = None
) -> list[RunReport]:
    """Run the `requests`, or those of the configuration file.

    Args:
        config: path of a configuration; read where no requests are given.
        home: folder of all data; `$PARLEY_HOME` wins.

    Returns:
        One report for each run.

    Raises:
        NightVoid: known cheats and golds, which a night by configuration runs first, did not end as they must.
        DiskFull: no run goes on. What is done is kept, and published by the next night.
        RunsFailed: a run could not be begun or was stopped by an error. The other runs are published all the same.
        ParleyError: nothing was published.
    """
    verify_packages()
    if requests is None:
        settings = read_config(Path(config))
        requests, home = settings.requests(Path(config).absolute().parent), home or settings.home
        for line in require_live_canary(request.sandbox for request in requests):
            _log.info(line)
    requests = [EvaluationRequest.model_validate(request) for request in requests]
    with night(find_home(home), max(r.workers for r in requests), secret_names=key_names(requests)) as tonight:
        started = utc_now()
        _stage_given_data(requests, tonight.home)
        reports = [_evaluate(tonight, request) for request in requests]
        tonight.reports = reports
        record_night(tonight.home, tonight.night_id, started, reports)
        run_ids = [report.run_id for report in reports if report.run_id]
        tonight.board.stage("night", "publish")
        tonight.await_preparation()
        publish_results(run_ids, home=str(tonight.home.path))
        tonight.reports = reports = as_published(tonight.home, reports)
        show_results(tonight.home, f"{result_markdown(tonight.home, run_ids)}\n\n{work_markdown(works(reports))}", reports)
        failed = [report for report in reports if report.status == "failed"]
        if failed:
            raise RunsFailed("; ".join(f"{report.title}: {report.reason}" for report in failed))
        return reports


def _stage_given_data(requests: Sequence[EvaluationRequest], home: Home) -> None:
    """Stage each raw dataset of the night once. One that cannot be staged fails its own runs, with the same message."""
    given = {
        (r.benchmark.name.partition(".")[0], r.benchmark.data, r.benchmark.dataset_version) for r in requests if r.benchmark.data
    }
    for benchmark, data, version in sorted(given, key=str):
        with suppress(ParleyError):
            stage_benchmarks(benchmark, str(data), version, home=str(home.path))


def _evaluate(tonight: Night, request: EvaluationRequest) -> RunReport:
    try:
        with naming_full_disk("what this run makes", tonight.home.path):
            return evaluate_model(request, home=str(tonight.home.path))
    except DiskFull:
        raise  # the other runs would fail alike, and so would every word about them
    except ParleyError as error:
        _log.error("%s: %s", request.title, error)
        return RunReport(
            run_id="",
            title=request.title,
            setting=request.benchmark.name,
            model=request.model.spec,
            status="failed",
            reason=str(error),
        )


def record_night(home: Home, night_id: str, started: str, reports: Sequence[RunReport]) -> None:
    """Keep in the lake which runs the night listed."""
    row = NightRecord(
        night_id=night_id,
        started_at=started,
        finished_at=utc_now(),
        run_ids=tuple(report.run_id for report in reports if report.run_id),
        n_published=published_count(reports),
        n_withheld=sum(report.status == "withheld" for report in reports),
        work=works(reports),
    )
    Lake(home.lake).write_part("nights", [row], "0", night_id=night_id)
