"""The cache policy hits in another flow run and another process, and misses when an input or a version changes."""

import json
from pathlib import Path

import pytest

from flows.prefect_server import prefect_server
from tests.flows.drivers import driver

FLOW = """
import json, sys
from prefect import flow, task
from tasks.cache_policy import inputs_and_versions
ran = []
def remember(names, options):
    ran.append("yes")
    return len(names)
def make(name, version):
    return task(remember, name=name, cache_policy=inputs_and_versions(version, 7), persist_result=True, result_serializer="json")
@flow
def run(name, version, names, options):
    return make(name, version)(names=names, options=options)
name, version, names, options = json.loads(sys.argv[1])
n = run(name, version, tuple(names), options)
print(json.dumps([len(ran), n]))
"""


@pytest.mark.slow
def test_it_hits_across_runs_and_processes_for_equal_inputs_and_versions_only(home: Path) -> None:
    def executions(name: str, version: int, names: list[str], seed: int) -> int:
        with driver(FLOW, json.dumps([name, version, names, {"limit": 3}]), environ={"PYTHONHASHSEED": str(seed)}) as run:
            ran, n = run.hear()
        assert n == len(names)
        return ran

    with prefect_server(home):
        assert executions("stage", 1, ["a", "b"], seed=1) == 1
        assert executions("stage", 1, ["a", "b"], seed=2) == 0
        assert executions("stage", 1, ["a", "c"], seed=2) == 1
        assert executions("stage", 2, ["a", "b"], seed=2) == 1
        assert executions("score", 1, ["a", "b"], seed=2) == 1
        assert (home / "prefect" / "storage").is_dir()
