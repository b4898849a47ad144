"""A lake that an earlier Parley wrote: every id still stands, nothing is paid for again, and its
tables come up to date.

`fixtures/lakes/before_growth.tar.xz` is the lake of a night that version 0.1.0 ran before settings
had prompts of their own: the sample of both benchmarks, gold and a model, with and without a
simulator, in two settings and with an option off its default.
"""

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.night.invocation import run_night
from flows.night.reporting.progress import Board
from schemas.lake.records import RunEpisode, RunRecord
from schemas.run import RunSpec
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.own_files import ROOT
from warehouse.connect import query

pytestmark = pytest.mark.slow

KEPT = ROOT / "tests" / "fixtures" / "lakes" / "before_growth.tar.xz"
N_RUNS = 8


@pytest.fixture
def kept(home: Path) -> Home:
    """A home with that lake."""
    home.mkdir()
    with tarfile.open(KEPT) as archive:
        archive.extractall(home, filter="data")
    return Home.at(str(home))


def records(kept: Home) -> tuple[RunRecord, ...]:
    found = Lake(kept.lake).read("runs", RunRecord)
    assert len(found) == N_RUNS
    return tuple(found)


def kept_keys(record: RunRecord) -> dict[str, str]:
    return {"benchmark": record.benchmark, "model": record.model, "run_id": record.run_id}


def request_of(record: RunRecord) -> EvaluationRequest:
    """The run as somebody asks for it today; its model is not there any more."""
    spec = RunSpec.model_validate_json(record.spec_json)
    options = dict(spec.episode_options + spec.scoring_options)

    def model(name: str, revision: str) -> ModelRequest:
        at = "@http://127.0.0.1:9/v1" if name.startswith("openai:") else ""
        return ModelRequest(spec=f"{name}{at}", revision=revision or None)

    return EvaluationRequest(
        model=model(spec.subject.label, spec.subject.revision),
        benchmark=BenchmarkRequest(
            name=spec.full_setting,
            dataset_version=spec.dataset_version,
            options=options,
        ),
        simulator=model(spec.simulator.label, spec.simulator.revision) if spec.simulator else None,
        sandbox=spec.sandbox,
    )


@pytest.fixture
def migrated(kept: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The lake after `parley publish --migrate`."""
    monkeypatch.setattr("sys.argv", ["parley"])
    done = CliRunner().invoke(app, ["publish", "--migrate"])
    assert done.exit_code == 0, done.output
    return kept


def test_every_episode_id_stands_and_none_is_pending(migrated: Home) -> None:
    seen = 0
    for record in records(migrated):
        plan = plan_run(request_of(record), migrated)
        members = {
            row.episode_id
            for row in plan.lake.read("run_episodes", RunEpisode, **kept_keys(record))
        }
        wanted = {one.episode_id for one in plan.wanted}
        assert members <= wanted, record.setting
        assert {one.episode_id for one in plan.pending()} == wanted - members, record.setting
        seen += len(members)
    assert seen == 16


def test_its_tables_are_published_after_a_migration(migrated: Home) -> None:
    _, rows = query(
        migrated.path, "SELECT model, setting, metric, mean, n FROM leaderboard ORDER BY ALL"
    )
    gold = {(row[1], row[2]): row[3] for row in rows if row[0] == "control:gold"}
    assert (
        gold["codeif.static", "instruction_accuracy"] == gold["convcode.live[none]", "mrr"] == 1.0
    )
    assert len({row[0] for row in rows}) == 2


def as_many(request: EvaluationRequest, problems: int) -> EvaluationRequest:
    """Of so many problems, as that night was: the samples have more today."""
    return request.model_copy(
        update={"benchmark": request.benchmark.model_copy(update={"limit": problems})}
    )


@pytest.mark.long
@pytest.mark.usefixtures("served_home", "bubblewrap")
def test_a_run_of_before_is_made_again_without_a_call(migrated: Home) -> None:
    requests = [as_many(request_of(record), record.n_episodes) for record in records(migrated)]
    spoken = [request for request in requests if request.model.spec.startswith("openai:")]
    assert len(spoken) == 4
    outcome = run_night(migrated, spoken, Board())
    assert [
        (report.status, report.work and report.work.model_calls, report.pending)
        for report in outcome.reports
    ] == [("finished", 0, 0)] * len(spoken)
    _, rows = query(migrated.path, "SELECT DISTINCT run_id FROM leaderboard")
    assert {report.run_id for report in outcome.reports} <= {run_id for (run_id,) in rows}
