"""`--resource images=swebench` through the whole command, in a real daemon: gold, nothing, and an agent at work."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox.backends.docker.daemon import client
from schemas.errors import SandboxUnavailable
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tests.flows.parley_command import parley_process
from tests.sandbox.backends.daemon import started_daemon, why_not
from tests.sandbox.backends.daemon_image import import_image, run_plain_container
from tests.tasks.benchmarks.dialogue_swebench.graded import LEDGER, RETRIER, SAMPLE
from tests.tasks.benchmarks.dialogue_swebench.official_image import PACKAGES, tag_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]
NAME = "dialogue_swebench"
FIX = {
    "command": "str_replace",
    "path": "src/retrier/core.py",
    "old_str": "clock() - begun > deadline_s",
    "new_str": "clock() - begun + pause > deadline_s",
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables of a daemon that has images of two instances."""
    with ExitStack() as stack:
        address = None
        try:
            client(None, 1)
        except SandboxUnavailable:
            if why_not() is not None:
                pytest.skip(f"no Docker daemon: {why_not()}")
            address = stack.enter_context(started_daemon())
        api = client(address, 2).api
        base = import_image(api, PACKAGES)
        run_plain_container(api, base)
        for problem in BENCHMARK.data.stage(SAMPLE, "x").problems:
            name = f"swebench/sweb.eval.x86_64.{problem.problem_id.replace('__', '_1776_')}:latest"
            if problem.problem_id in (LEDGER, RETRIER):
                tag_image(api, base, name, problem, tmp_path_factory.mktemp("repository"))
        yield {"DOCKER_HOST": address} if address else {}


def test_the_official_images_are_all_that_a_run_needs(
    images: dict[str, str], home: Path, server_url: str, tmp_path: Path
) -> None:
    data, subject = tmp_path / "data.jsonl", tmp_path / "subject.jsonl"
    rows = [json.loads(line) for line in (SAMPLE / "sample.jsonl").read_text(encoding="utf-8").splitlines()]
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows if row["instance_id"] in (LEDGER, RETRIER)))
    which = "which python; python -c 'import pytest, retrier; print(retrier.__file__)'; ls -a /testbed"
    asked = [("bash", {"command": which}), ("edit_file", FIX), ("finish", {"message": "Done."})]
    steps = [
        {"problem_id": RETRIER, "turn": 1, "step": step, "content": "", "calls": _call(step, *call)}
        for step, call in enumerate(asked)
    ]
    subject.write_text("".join(f"{json.dumps(step)}\n" for step in steps))
    models = (("control:gold",), ("control:empty",), (f"recorded:{subject}", "--agent", "autonomous"))
    environ = {**images, "PREFECT_API_URL": server_url}
    for model in models:
        run = ("run", f"{NAME}.first_query", "--data", data, "--resource", "images=swebench", "--workers", "1", "--model")
        done = parley_process(home, *run, *model, "--max-fault-share", "1", "--json", environ=environ)
        assert done.code == 0, done.err
    query = "select problem_id, model, value from scores where metric = 'resolved'"
    found = parley_process(home, "sql", query, "--json").json()
    values = {(row["problem_id"], "agent" if "autonomous" in row["model"] else row["model"]): row["value"] for row in found}
    assert values[LEDGER, "control:gold"] == values[RETRIER, "control:gold"] == 1.0
    assert values[LEDGER, "control:empty"] == values[RETRIER, "control:empty"] == 0.0
    assert values[RETRIER, "agent"] == 1.0
    (run,) = parley_process(home, "sql", "select distinct sandbox, isolated from runs", "--json").json()
    assert run == {"sandbox": "docker", "isolated": True}
    (episode,) = parley_process(
        home,
        "sql",
        f"select episode_id from scores where problem_id = '{RETRIER}' and model like '%autonomous%' limit 1",
        "--json",
    ).json()
    shown = parley_process(home, "show", episode["episode_id"]).out
    assert "/opt/miniconda3/envs/testbed/bin/python" in shown
    assert "built.egg-info" in shown


def _call(number: int, tool: str, arguments: dict[str, str]) -> list[dict[str, str]]:
    return [{"call_id": f"c{number}", "name": tool, "arguments": json.dumps(arguments)}]
