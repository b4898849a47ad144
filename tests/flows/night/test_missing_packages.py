"""A task whose packages are not installed would fail for every model: said before anything is paid, with what to install."""

import json
from pathlib import Path

import pytest

from flows.night.before.missing_packages import require_packages
from sandbox import registry as sandboxes
from schemas.errors import ConfigError
from schemas.problem import Problem
from tasks.benchmarks import registry
from tests.fixtures.model_server import model_server
from tests.flows.drivers import ROOT
from tests.flows.parley_command import parley
from tests.problems import simple_problem

ABSENT = "package_that_nobody_has"


def problem(*packages: str) -> Problem:
    """A task that needs these packages."""
    return simple_problem("/".join(packages), packages=packages)


def test_what_is_missing_is_counted_by_task_and_named_with_its_remedy() -> None:
    problems = [problem("numpy"), problem("numpy", ABSENT), problem(ABSENT, "other-absent"), problem()]
    with pytest.raises(ConfigError) as refused:
        require_packages(registry.load(registry.FIRST), problems)
    assert "2 of the 4 tasks" in str(refused.value)
    assert f"{ABSENT} (2), other-absent (1)" in str(refused.value)
    assert f"pip install other-absent {ABSENT}" in str(refused.value)


def test_a_module_from_another_distribution_will_do() -> None:
    benchmark = registry.load("convcode")
    require_packages(benchmark, [problem("pyyaml", "PyYAML", "python-dateutil", "Pandas")])
    assert benchmark.programs.modules["opencv-python-headless"] == "cv2"
    with pytest.raises(ConfigError):
        require_packages(benchmark, [problem("json")])  # of Python itself: no installed package


def test_only_sandboxes_that_run_this_machine_s_python_are_asked() -> None:
    assert {name for name in sandboxes.BUILT_IN if sandboxes.load(name).has_host_packages} == {"bubblewrap", "zygote", "none"}


@pytest.mark.slow
def test_nothing_is_asked_of_the_model_where_a_package_is_missing(home: Path, tmp_path: Path, bubblewrap: str) -> None:
    sample = (ROOT / "tasks/benchmarks/convcode/sample/BigCodeBench_sample.jsonl").read_text().splitlines()
    row = json.loads(sample[0])
    row["libs"] = f"['statistics', '{ABSENT}.tools']"
    in_test = json.loads(sample[1])
    in_test["test"] = f"import {ABSENT}\n" + in_test["test"]
    (tmp_path / "BigCodeBench.jsonl").write_text("\n".join([json.dumps(row), json.dumps(in_test), *sample[2:]]))
    run = ("run", "convcode.live[none]", "--data", tmp_path / "BigCodeBench.jsonl")
    with model_server() as server:
        done = parley(home, *run, "--model", f"openai:mock@{server.base_url}")
        assert server.bodies == []
    assert done.code == 2, done.err
    assert "2 of the 10 tasks that are owed import packages that are not installed" in done.err
    assert f"pip install {ABSENT}" in done.err
    assert not (home / "prefect").exists()
