"""A project that fails its own tests before an answer is in it: its tasks are not asked, and the
runner's words are shown.
"""

import shutil
from pathlib import Path

import pytest

from schemas.dialog import Dialog
from schemas.episode import StopReason, UnscoredReason
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.codeif.stage import RESOURCE
from tasks.benchmarks.contract import Staged
from tasks.planning import environment_check
from tasks.planning.dataset import resolved_data
from tasks.planning.environment_check import environment_lines
from tasks.storage.files.source_trees import tree_files
from tasks.storage.home import Home
from tests.fixtures.model_server import model_server
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.codeif.dialogues import episode_of, scores_of

PROJECTS = Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES])) / "projects"
ABSENT = "package_that_nobody_has"
pytestmark = pytest.mark.usefixtures("bubblewrap")


def needing(place: Path, package: str) -> Path:
    """The sample's project, whose module of money imports a package."""
    shutil.copytree(PROJECTS, place)
    money = place / "Sample" / "ledger" / "ledger" / "money.py"
    money.write_text(f"import {package}\n\n{money.read_text(encoding='utf-8')}", encoding="utf-8")
    return place


def checked(projects: Path, home: Path) -> Staged:
    tree_files.cache_clear()
    return resolved_data(
        BENCHMARK, None, SAMPLE_REPOSITORIES, Home(home), {RESOURCE: str(projects)}, "bubblewrap"
    )


def missing(staged: Staged) -> list[bool]:
    return [dialog.environment_fault is not None for dialog in staged.dialogs]


@pytest.mark.slow
def test_a_project_that_lacks_a_package_is_environment_missing_in_the_words_of_the_runner(
    tmp_path: Path,
) -> None:
    whole, lacking = (
        checked(PROJECTS, tmp_path),
        checked(needing(tmp_path / "lacking", ABSENT), tmp_path),
    )
    assert missing(whole) == [False, False, False]
    assert missing(lacking) == [True, False, True], "accounts do not import the module of money"
    (line,) = environment_lines(lacking.dialogs)
    assert line.startswith(
        "environment_missing: 2 tasks (repo/ledger.money.parse_cents, "
        "repo/ledger.report.Report.line): "
    )
    assert line.endswith(f"ModuleNotFoundError: No module named '{ABSENT}'")
    assert environment_lines(whole.dialogs) == ()


@pytest.mark.slow
def test_a_task_is_asked_under_another_id_once_its_environment_is_whole(tmp_path: Path) -> None:
    projects = needing(tmp_path / "projects", ABSENT)
    before = checked(projects, tmp_path)
    (projects / "Sample" / "ledger" / f"{ABSENT}.py").write_text("", encoding="utf-8")
    after = checked(projects, tmp_path)
    assert missing(after) == [False, False, False]
    assert {d.digest for d in before.dialogs}.isdisjoint(d.digest for d in after.dialogs)


@pytest.mark.slow
def test_a_result_is_stored_and_no_test_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = needing(tmp_path / "projects", ABSENT)
    first = checked(projects, tmp_path / "home")

    def refuse(*_: object) -> None:
        raise AssertionError("a stored result was computed again")

    monkeypatch.setattr(environment_check, "run_tests", refuse)
    assert checked(projects, tmp_path / "home").dialogs == first.dialogs


def test_its_scores_are_unscored_without_fault() -> None:
    staged = BENCHMARK.data.stage(PROJECTS.parent, SAMPLE_REPOSITORIES)
    dialog: Dialog = staged.dialogs[0].without_environment("No module named x")
    assert dialog.is_sourceless
    assert dialog.with_tree("digest").environment_fault is None
    scores = scores_of(
        staged.problems[0],
        dialog,
        episode_of(staged.problems[0], dialog, [], StopReason.ENVIRONMENT_MISSING),
        (),
    )
    assert {score.unscored_reason for score in scores} == {UnscoredReason.ENVIRONMENT_MISSING}
    assert not UnscoredReason.ENVIRONMENT_MISSING.is_fault


@pytest.mark.slow
def test_the_command_names_it_and_does_not_ask_its_tasks(home: Path, tmp_path: Path) -> None:
    projects = needing(tmp_path / "projects", ABSENT)
    run = (
        "run",
        "codeif.static",
        "--dataset-version",
        SAMPLE_REPOSITORIES,
        "--resource",
        f"repos={projects}",
        "--workers",
        "1",
    )
    with model_server() as server:
        done = parley(
            home,
            *run,
            "--model",
            f"openai:mock@{server.base_url}",
            "--sandbox",
            "bubblewrap",
            "--json",
        )
        prompts = [str(body["messages"]) for body in server.bodies if "messages" in body]
    assert prompts, "the task of accounts is asked"
    assert [prompt for prompt in prompts if "transfer" not in prompt] == [], (
        "the other tasks are not"
    )
    assert f"No module named '{ABSENT}'" in done.err
    report = done.json()
    assert (report["status"], report["n_infra"]) == ("finished", 0)
    query = (
        "select distinct problem_id as name from scores where unscored_reason = "
        "'environment_missing' order by 1"
    )
    names = [row["name"] for row in parley(home, "sql", query, "--json").json()]
    assert names == ["repo/ledger.money.parse_cents", "repo/ledger.report.Report.line"]
