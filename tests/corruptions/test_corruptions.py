"""Bad data are caught before publication, each by the check that its case names, and the night's
other run is published.
"""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ParleyError, UsageError
from schemas.lake.records import QualityCheck
from tasks.benchmarks.registry import BENCHMARKS
from tasks.planning.dataset import write_staged
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import EvaluationRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.corruptions.case import Case
from tests.corruptions.cases import CASES, STAGED
from tests.corruptions.night import Told, between, night, only, request
from tests.corruptions.night import without_prefect as without_prefect
from tests.corruptions.spoiling import parts
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap", "without_prefect")]
VERSION = "current"
CHECKED_AFTER = {"converse": "episodes", "execute": "test_verdicts", "score": "scores"}
SHOWN = (
    "leaderboard",
    "codeif_turns",
    "costs",
    "scores",
    "test_verdicts",
    "turns",
    "episodes",
    "run_episodes",
)
"""Where a withheld run has no row."""


def gold(**changes: object) -> EvaluationRequest:
    return request("control:gold", dataset_version=VERSION, limit=2).model_copy(update=changes)


SOUND = request("control:empty", dataset_version="sample", limit=1)
"""The night's other run: nothing of it is spoiled."""


@pytest.fixture(scope="module")
def pattern(
    tmp_path_factory: pytest.TempPathFactory, without_prefect: None, bubblewrap: str
) -> Path:
    """A home with a staged dataset on which a small run has finished, and another run on other
    data; nothing is published.
    """
    home = Home(tmp_path_factory.mktemp("pattern") / "home")
    benchmark = BENCHMARKS.load("codeif")
    write_staged(
        benchmark.data.stage(Path(str(benchmark.data.sample)), VERSION),
        "codeif",
        VERSION,
        Lake(home.lake),
    )
    told = night(home.path, gold(), SOUND)
    assert [report.status for report in told.reports] == ["finished", "finished"], told.errors
    home.warehouse.unlink()
    return home.path


def spoil(case: Case, plan: RunPlan) -> None:
    keys = (
        plan.keys
        if case.table not in ("dialogs", "problems")
        else {"benchmark": "codeif", "dataset_version": VERSION}
    )
    case.spoil(plan.lake.folder(case.table, **keys), random.Random(case.seed))


def night_with(case: Case, home: Path) -> Told:
    """The night in which the corruption happens.

    Another fault limit lets the finished run be looked at again.
    """
    if case.when == "passed":
        return night(home, gold(), SOUND, before_publication=lambda plan: _of_gold(case, plan))
    if case.when == "staged":
        spoil(case, plan_run(asked(case), Home(home)))
        with only("dialogs", "problems"):
            return night(home, asked(case), SOUND)
    with only(CHECKED_AFTER[case.when]), between({case.when: lambda plan: _of_gold(case, plan)}):
        return night(home, gold(max_fault_share=0.02), SOUND)


def asked(case: Case) -> EvaluationRequest:
    """On a spoiled dataset a run that is new: what was published before it was spoiled stays."""
    return (
        request("control:gold", dataset_version=VERSION, limit=2, seed=7)
        if case.when == "staged"
        else gold()
    )


def _of_gold(case: Case, plan: RunPlan) -> None:
    if plan.spec.dataset_version == VERSION:
        spoil(case, plan)


def failed_checks(home: Path, run_id: str) -> set[str]:
    """Blocking checks that failed, as the lake keeps them."""
    lake = Lake(Home(home).lake)
    kept = lake.read_arrow(
        "quality_checks", [p for p in lake.parts("quality_checks") if f"run={run_id}" in str(p)]
    )
    return {
        row["expectation"] for row in kept.to_pylist() if row["blocking"] and not row["success"]
    }


def caught(told: Told, home: Path, run_id: str) -> str:
    """All that says what was wrong: errors, failed checks, reasons of the publication."""
    said = [f"{type(error).__name__}: {error}" for error in told.errors]
    withheld = told.published.withheld if told.published else ()
    said += [one.reason for one in withheld if one.run_id == run_id]
    assert plan_run(SOUND, Home(home)).run_id not in {one.run_id for one in withheld}
    stopped = any(
        report.run_id == run_id and report.status == "withheld" for report in told.reports
    )
    if stopped and run_id not in {one.run_id for one in withheld}:
        said += sorted(failed_checks(home, run_id))
    return "\n".join(said)


def drawn(cases: Sequence[Case]) -> Iterator[Any]:
    """All cases; but for one in four, drawn by the corpus's seed, they are `long`: each takes a
    night.
    """
    chosen = random.Random(os.environ["CORPUS_SEED"]).sample(range(len(cases)), -(-len(cases) // 4))
    for number, case in enumerate(cases):
        yield pytest.param(
            case, id=case.name.replace(" ", "-"), marks=() if number in chosen else pytest.mark.long
        )


@pytest.mark.parametrize("case", list(drawn(CASES)))
def test_a_corruption_is_caught_before_publication(
    case: Case, pattern: Path, tmp_path: Path
) -> None:
    home = Path(shutil.copytree(pattern, tmp_path / "home"))
    run_id = plan_run(asked(case), Home(home)).run_id
    told = night_with(case, home)
    assert case.caught_by in caught(told, home, run_id)
    assert not any(report.is_published for report in told.reports if report.run_id == run_id)
    union = " union all ".join(f"select '{table}' as shown, run_id from {table}" for table in SHOWN)
    shown = query(home, f"select distinct shown, run_id from ({union})")[1]
    assert [table for table, run in shown if run == run_id] == []
    assert {table for table, run in shown if run == plan_run(SOUND, Home(home)).run_id} == set(
        SHOWN
    )


def test_the_list_is_long_and_spoils_each_table_at_each_time() -> None:
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.table for case in STAGED} == {"dialogs", "problems"}
    spoiled = {case.table for case in CASES}
    assert spoiled == {
        "dialogs",
        "problems",
        "episodes",
        "run_episodes",
        "test_verdicts",
        "scores",
        "quality_checks",
        "runs",
    }


def test_nothing_is_found_in_what_is_right(pattern: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(pattern, tmp_path / "home"))
    told = night(home, gold(max_fault_share=0.02), SOUND)
    assert [report.status for report in told.reports] == ["finished", "finished"], told.errors
    assert told.published is not None
    assert (told.published.withheld, told.published.warnings, told.published.n_runs_published) == (
        (),
        (),
        2,
    )


def test_a_withheld_run_that_calls_itself_finished_is_withheld_all_the_same(
    pattern: Path, tmp_path: Path
) -> None:
    home = Path(shutil.copytree(pattern, tmp_path / "home"))
    case = next(case for case in CASES if case.name == "a verdict is missing")

    def forged(plan: RunPlan) -> None:
        record = plan.record()
        if record is not None and record.status == "withheld":
            plan.lake.write_part(
                "runs", [record.model_copy(update={"status": "finished"})], "0", **plan.keys
            )

    with between({"execute": lambda plan: _of_gold(case, plan)}):
        told = night(home, gold(max_fault_share=0.02), SOUND, before_publication=forged)
    assert told.published is not None
    [withheld] = told.published.withheld
    assert (
        "checks_passed: is recorded as finished, but 1 of its quality checks withhold it"
        in withheld.reason
    )
    assert "test_verdicts due_verdict_present" in withheld.reason


def test_a_run_that_is_mended_is_published_by_the_next_night(pattern: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(pattern, tmp_path / "home"))
    case = next(case for case in CASES if case.name == "checked scores are cut off")
    told = night_with(case, home)
    assert [report.status for report in told.reports] == ["withheld", "finished"]
    assert "remove " in str(told.reports[0].reason)
    for part in parts(
        plan_run(gold(), Home(home)).lake.folder("scores", **plan_run(gold(), Home(home)).keys)
    ):
        part.unlink()
    told = night(home, gold(), SOUND)
    assert [
        (report.status, report.work and report.work.model_calls) for report in told.reports
    ] == [
        ("finished", 0),
        ("finished", 0),
    ]
    assert told.published is not None
    assert told.published.n_runs_published == 2


def write_answers(home: Path, path: Path, answer: str) -> None:
    """A recording of every turn that the sample's first dialogue asks for."""
    lines = [
        f'{{"problem_id": "{problem}", "turn": {turn}, "sample": 0, "content": "{answer}"}}'
        for problem, turn in turns(home)
    ]
    path.write_text("\n".join(lines) + "\n")


def recorded(home: Path, path: Path, answer: str) -> EvaluationRequest:
    write_answers(home, path, answer)
    return request(f"recorded:{path}", limit=1, samples=1)


def turns(home: Path) -> list[tuple[str, int]]:
    plan = plan_run(SOUND, Home(home))
    first = (w for w in plan.wanted if w.sample == 0)
    return [
        (w.problem_id, n) for w in first for n in range(1, len(plan.dialog(w).instruction_ids) + 1)
    ]


def test_answers_that_are_exchanged_while_a_run_is_under_way_are_refused(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "answers.jsonl"
    before = recorded(home, path, "x = 1")
    with between({"stage": lambda _: write_answers(home, path, "x = 2")}):
        told = night(home, before)
    [error] = [e for e in told.errors if "recording" in str(e)]
    assert isinstance(error, UsageError)
    assert "answers changed since the run began" in str(error)
    assert Lake(Home(home).lake).parts("episodes") == []


def test_a_run_is_not_gone_on_with_on_other_answers(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "answers.jsonl"
    first = night(home, recorded(home, path, "x = 1")).reports[0]
    again = recorded(home, path, "x = 2").model_copy(update={"resume": first.run_id})
    told = night(home, again)
    [error] = told.errors[:1]
    assert isinstance(error, ParleyError)
    assert "weights_digest" in str(error)
    assert night(home, recorded(home, path, "x = 2")).reports[0].run_id != first.run_id


def test_a_failed_check_names_place_and_fault(pattern: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(pattern, tmp_path / "home"))
    case = next(case for case in CASES if case.name == "two ids are exchanged")
    night_with(case, home)
    plan = plan_run(gold(), Home(home))
    checks = plan.lake.read("quality_checks", QualityCheck, **plan.keys)
    [check] = [c for c in checks if c.expectation == "episode_of_its_id"]
    assert "its id was computed from" in check.detail
    assert "problem_id=" in check.detail
