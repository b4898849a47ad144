"""A task whose packages are not installed would fail for every model: said before anything is paid,
with what to install.
"""

import json
from pathlib import Path

import pytest

from flows.night.preflight.checks import require_packages
from sandbox import registry as sandboxes
from sandbox.registry import SANDBOXES
from schemas.errors import ConfigError
from schemas.problem import Problem
from tasks.benchmarks.registry import BENCHMARKS, FIRST
from tests.fixtures.model_server import model_server
from tests.flows.drivers import ROOT
from tests.flows.parley_command import ask, parley
from tests.problems import simple_problem

ABSENT = "package_that_nobody_has"


def problem(*packages: str) -> Problem:
    """A task that needs these packages."""
    return simple_problem("/".join(packages), packages=packages)


def test_what_is_missing_is_counted_by_task_and_named_with_its_remedy() -> None:
    problems = [
        problem("numpy"),
        problem("numpy", ABSENT),
        problem(ABSENT, "other-absent"),
        problem(),
    ]
    with pytest.raises(ConfigError) as refused:
        require_packages(BENCHMARKS.load(FIRST), "sample", problems)
    assert "2 of the 4 pending tasks" in str(refused.value)
    assert f"{ABSENT} (2), other-absent (1)" in str(refused.value)
    assert f"pip install other-absent {ABSENT}" in str(refused.value)


def test_a_module_from_another_distribution_will_do() -> None:
    benchmark = BENCHMARKS.load("convcode")
    require_packages(
        benchmark, "sample", [problem("pyyaml", "PyYAML", "python-dateutil", "Pandas")]
    )
    assert benchmark.programs.modules["opencv-python-headless"] == "cv2"
    with pytest.raises(ConfigError):
        require_packages(
            benchmark, "sample", [problem("json")]
        )  # of Python itself: no installed package


def test_only_sandboxes_that_run_this_machine_s_python_are_asked() -> None:
    assert {name for name in SANDBOXES.built_in if sandboxes.load(name).has_host_packages} == {
        "bubblewrap",
        "zygote",
        "none",
    }


def tasks_with_missing_packages(folder: Path) -> Path:
    """Write ten tasks, of which two import a package that nobody has: one in its code, one in its
    tests.
    """
    sample = (
        (ROOT / "tasks/benchmarks/convcode/sample/BigCodeBench_sample.jsonl")
        .read_text()
        .splitlines()
    )
    row = json.loads(sample[0])
    row["libs"] = f"['statistics', '{ABSENT}.tools']"
    in_test = json.loads(sample[1])
    in_test["test"] = f"import {ABSENT}\n" + in_test["test"]
    path = folder / "BigCodeBench.jsonl"
    path.write_text("\n".join([json.dumps(row), json.dumps(in_test), *sample[2:]]))
    return path


def test_the_remedy_is_the_environment_of_the_benchmark_where_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    benchmark = BENCHMARKS.load("convcode")
    for folders, remedy in (
        ((), f"Run `make bigcodebench`.*: pip install {ABSENT}"),
        (("/env",), f"pip install --target /env {ABSENT}"),
    ):
        monkeypatch.setattr(
            "tasks.benchmarks.program_runs.environment_folders",
            lambda name, folders=folders: folders,
        )
        with pytest.raises(ConfigError, match=remedy):
            require_packages(benchmark, "bigcodebench", [problem(ABSENT)])


@pytest.mark.slow
def test_a_run_can_leave_out_the_tasks_whose_packages_are_missing(
    home: Path, tmp_path: Path, bubblewrap: str
) -> None:
    data = tasks_with_missing_packages(tmp_path)
    run = (
        "run",
        "convcode.live[none]",
        "--data",
        data,
        "--model",
        "control:gold",
        "--skip-missing-packages",
    )
    done = parley(home, *run, "--workers", "1")
    assert done.code == 0, done.err
    assert (
        f"skipped 2 of 10 tasks, because they import packages that are not installed: {ABSENT} (2)"
        in done.err
    )
    for table in ("runs", "leaderboard"):
        assert ask(home, f"select distinct task_share from {table}") == [{"task_share": 0.8}], table
    assert ask(home, "select count(distinct problem_id) as n from turns") == [{"n": 8}]
    (episode,) = ask(home, "select min(episode_id) as id from turns")
    assert "run with 80.0% of the tasks" in parley(home, "show", episode["id"]).out
    again = parley(home, *run, "--dry-run", "--json")
    assert [
        (line["episodes"], line["owed"]) for line in map(json.loads, again.out.splitlines())
    ] == [(8, 0)]
    assert "skipped 2 of 10 tasks" in parley(home, *run, "--dry-run").out


def test_a_run_of_which_each_task_lacks_a_package_is_refused(home: Path, tmp_path: Path) -> None:
    data = tasks_with_missing_packages(tmp_path)
    data.write_text("\n".join(data.read_text().splitlines()[:2]))
    run = (
        "run",
        "convcode.live[none]",
        "--data",
        data,
        "--model",
        "control:gold",
        "--skip-missing-packages",
    )
    done = parley(home, *run, "--dry-run")
    assert (done.code, "each of the 2 tasks imports a missing package" in done.err) == (2, True), (
        done.err
    )
    done = parley(home, *run, "--dry-run", "--sandbox", "docker")
    assert (done.code, "has the packages of its image" in done.err) == (2, True), done.err


@pytest.mark.slow
def test_nothing_is_asked_of_the_model_where_a_package_is_missing(
    home: Path, tmp_path: Path, bubblewrap: str
) -> None:
    run = ("run", "convcode.live[none]", "--data", tasks_with_missing_packages(tmp_path))
    with model_server() as server:
        done = parley(home, *run, "--model", f"openai:mock@{server.base_url}")
        assert server.bodies == []
    assert done.code == 2, done.err
    assert "2 of the 10 pending tasks import packages that are not installed" in done.err
    assert f" {ABSENT}. Or skip these tasks with --skip-missing-packages" in done.err
    assert not (home / "prefect").exists()
