"""Projects that programs run in: what of them is in ids, and what becomes of one that goes away or
changes.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from sandbox.backends.unisolated import UnisolatedSandbox
from schemas.dialog import MISSING, Dialog, dataset_digest
from schemas.errors import SandboxUnavailable
from schemas.run import ModelIdentity, RunSpec
from schemas.verdict import Outcome
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.codeif.stage import PACKAGES_FOLDER, RESOURCE
from tasks.converse import context_for
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.files.source_trees import tree_files
from tasks.storage.home import Home
from tasks.worker.execute_shard import answers_of, decide
from tasks.worker.jobs import ExecuteItem
from tasks.worker.program_book import (
    ProgramBook,
    ProgramFacts,
    ReportCache,
    program_in_place,
)
from tests.tasks.benchmarks.codeif.dialogues import episode_of
from tests.tasks.benchmarks.codeif.test_repository import PROJECTS, sample, wanted

SPEC = RunSpec(
    benchmark="codeif",
    benchmark_version="1",
    setting="static",
    dataset_version=SAMPLE_REPOSITORIES,
    dataset_digest="d",
    subject=ModelIdentity(provider="openai", name="m", revision="1"),
)


def test_the_content_of_a_project_is_in_the_ids_and_its_place_is_not(tmp_path: Path) -> None:
    def copied(folder: str, extra: str = "") -> list[str]:
        project = tmp_path / folder / "Sample" / "ledger"
        for path in (PROJECTS / "Sample" / "ledger").rglob("*.py"):
            target = project / path.relative_to(PROJECTS / "Sample" / "ledger")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes() + extra.encode())
        return [dialog.digest for dialog in sample(tmp_path / folder).dialogs]

    same = copied("one")
    assert same == copied("two") != copied("three", "# changed\n")
    assert same != [dialog.digest for dialog in sample(None).dialogs]
    assert [d.row_digest for d in sample().dialogs] == [d.row_digest for d in sample(None).dialogs]


def laid_out(place: Path, **installed: str) -> Path:
    """The sample's project with packages of these versions beside it, as pip leaves them."""
    shutil.copytree(PROJECTS, place)
    for name, version in installed.items():
        told = place / "Sample" / "ledger" / PACKAGES_FOLDER / f"{name}-{version}.dist-info"
        told.mkdir(parents=True)
        (told / "RECORD").write_text(f"../../bin/{name},sha256={place.name}\n", encoding="utf-8")
    return place


def test_the_same_project_laid_out_twice_has_the_same_ids(tmp_path: Path) -> None:
    one, two = (
        sample(laid_out(tmp_path / name, pytest="7.4.0")).dialogs for name in ("one", "two")
    )
    assert [dialog.digest for dialog in one] == [dialog.digest for dialog in two]
    assert [dialog.digest_with_packages for dialog in one] == [
        dialog.digest_with_packages for dialog in two
    ]


def test_other_packages_renew_verdicts_and_no_dialogue(tmp_path: Path) -> None:
    before, after = (
        sample(laid_out(tmp_path / version, pytest=version)) for version in ("7.4.0", "7.4.1")
    )
    assert [dialog.digest for dialog in before.dialogs] == [
        dialog.digest for dialog in after.dialogs
    ]
    assert dataset_digest(before.dialogs) != dataset_digest(after.dialogs)
    ids = set[str]()
    for staged in (before, after):
        one = wanted(staged.problems[0], staged.dialogs[0], "x")
        ids.add(ProgramFacts(SPEC.runner_version, "here", SPEC.limits, ()).id_of(one))
    assert len(ids) == 2


def test_a_project_that_goes_away_or_changes_after_planning_is_a_fault_of_the_machine(
    tmp_path: Path,
) -> None:
    staged = sample(laid_out(tmp_path / "projects", pytest="7.4.0"))
    one = wanted(staged.problems[0], staged.dialogs[0], "def parse_cents(text):\n    return 0")

    def program() -> object:
        return program_in_place(((RESOURCE, str(tmp_path / "projects")),), one)

    assert program() is not None
    tree_files.cache_clear()
    project = tmp_path / "projects" / "Sample" / "ledger"
    project.rename(tmp_path / "away")
    with pytest.raises(SandboxUnavailable, match="was there when the run was planned"):
        program()
    with pytest.raises(SandboxUnavailable, match="names no resource"):
        program_in_place((), one)
    (tmp_path / "away").rename(project)
    assert program() is not None
    tree_files.cache_clear()
    (project / "ledger" / "money.py").write_text(
        "def parse_cents(text):\n    return 1\n", encoding="utf-8"
    )
    with pytest.raises(SandboxUnavailable, match="changed since the run was planned"):
        program()


def test_verdicts_on_a_project_that_went_away_are_infra_and_on_one_that_never_was_unscored(
    tmp_path: Path,
) -> None:
    projects = laid_out(tmp_path / "projects")
    resources = {RESOURCE: str(projects)}
    asked = BenchmarkRequest(
        name="codeif.static", dataset_version=SAMPLE_REPOSITORIES, limit=1, resources=resources
    )
    request = EvaluationRequest(
        model=ModelRequest(spec="control:gold"), benchmark=asked, sandbox="none"
    )
    plan = plan_run(request, Home(tmp_path / "home"))
    context, (wanted, *_) = context_for(plan, workers=1, cores=2), plan.wanted
    problem = plan.problems[wanted.problem_id]
    shutil.rmtree(projects / "Sample")

    def outcomes(dialog: Dialog) -> set[Outcome]:
        item = ExecuteItem(episode_of(problem, dialog, ["x = 1"]), problem, dialog)
        tests = [
            test
            for test in BENCHMARK.programs.test_runs(problem, dialog, item.episode, {})
            if test.code
        ]
        answers = answers_of(plan.spec, tests)
        book = ProgramBook(
            ProgramFacts.of_run(context), UnisolatedSandbox(), ReportCache(), threads=1
        )
        return {
            row.outcome
            for one in answers
            for row in asyncio.run(decide(context, book, item, one, {}))[0]
        }

    assert outcomes(plan.dialog(wanted)) == {Outcome.INFRA}
    assert outcomes(plan.dialog(wanted).with_tree(MISSING)) == {Outcome.UNSCORED}


def test_packages_that_changed_after_planning_are_noticed_too(tmp_path: Path) -> None:
    staged = sample(laid_out(tmp_path / "projects", pytest="7.4.0"))
    one = wanted(staged.problems[0], staged.dialogs[0], "x")
    packages = tmp_path / "projects" / "Sample" / "ledger" / PACKAGES_FOLDER
    (packages / "pytest-7.4.0.dist-info").rename(packages / "pytest-9.0.0.dist-info")
    with pytest.raises(SandboxUnavailable, match="changed since"):
        program_in_place(((RESOURCE, str(tmp_path / "projects")),), one)


def test_a_project_without_the_definition_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    projects = laid_out(tmp_path / "projects")
    (projects / "Sample" / "ledger" / "ledger" / "money.py").write_text(
        "def parse_euros(text): ...\n", encoding="utf-8"
    )
    assert [dialog.tree == MISSING for dialog in sample(projects).dialogs] == [True, False, False]
