"""`--resource images=...` through the whole command, with a real daemon and a real registry of
images on loopback.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.backends.docker.pulling import remove_image
from tasks.benchmarks.dialogue_swebench import BENCHMARK
from tests.flows.parley_command import parley_process
from tests.sandbox.backends.daemon_image import import_image, run_plain_container
from tests.sandbox.backends.image_registry import ImageRegistry, started_registry
from tests.tasks.benchmarks.dialogue_swebench.graded import LEDGER, RETRIER, SAMPLE
from tests.tasks.benchmarks.dialogue_swebench.official_image import PACKAGES, tag_image

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1800)]
NAME = "dialogue_swebench"
FIX = {
    "command": "str_replace",
    "path": "src/retrier/core.py",
    "old_str": "clock() - begun > deadline_s",
    "new_str": "clock() - begun + pause > deadline_s",
}


@dataclass(frozen=True)
class Official:
    """Images of the sample's three instances in a registry.

    The daemon has none of them at first.
    """

    registry: ImageRegistry
    images: dict[str, str]
    """Instance -> its image, pinned by digest."""

    @property
    def resource(self) -> str:
        """The option that names them."""
        return f"images={self.registry.address}/swebench"

    def here(self) -> set[str]:
        """Instances whose images the daemon has."""
        return {instance for instance, image in self.images.items() if self.registry.is_here(image)}

    def forget(self) -> None:
        """Remove all of them from the daemon."""
        assert all(remove_image(self.registry.api, image) for image in self.images.values())


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Official]:
    with started_registry() as found:
        base = import_image(found.api, PACKAGES)
        run_plain_container(found.api, base)
        images: dict[str, str] = {}
        for problem in BENCHMARK.data.stage(SAMPLE, "x").problems:
            place = f"swebench/sweb.eval.x86_64.{problem.problem_id.replace('__', '_1776_')}"
            name = f"{found.address}/{place}:latest"
            tag_image(found.api, base, name, problem, tmp_path_factory.mktemp("repository"))
            images[problem.problem_id] = found.push(name)
        yield Official(found, images)


def test_a_run_pulls_the_images_of_the_episodes_that_it_plays(
    official: Official, home: Path, server_url: str, tmp_path: Path
) -> None:
    """Of three instances one is asked for by `--limit`, and of the three that are asked for then,
    one cannot be pulled.
    """
    environ = {**official.registry.variables, "PREFECT_API_URL": server_url}
    run = (
        "run",
        f"{NAME}.first_query",
        "--dataset-version",
        "sample",
        "--resource",
        official.resource,
    )
    run += ("--workers", "1", "--max-fault-share", "1", "--model", "control:gold")
    official.forget()
    first = parley_process(home, *run, "--limit", "1", environ=environ)
    assert first.code == 0, first.err
    (asked,) = official.here()
    _, broken = sorted(set(official.images) - {asked})
    official.registry.remove_layer(official.images[broken])
    second = parley_process(home, *run, environ=environ)
    assert second.code == 0, second.err
    assert parley_process(home, "sql", "select count(*) n from runs", "--json").json() == [{"n": 1}]
    assert official.here() == set(official.images) - {broken}
    query = "select problem_id, outcome, reason, detail from test_verdicts"
    rows = {row["problem_id"]: row for row in parley_process(home, "sql", query, "--json").json()}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        name: "infra" if name == broken else "passed" for name in official.images
    }
    assert rows[broken]["reason"] == "image_missing"
    assert rows[broken]["detail"].startswith(
        f"image_missing: docker could not pull the image {official.images[broken]}"
    )
    query = "select problem_id, stop_reason, error from episodes"
    episodes = {
        row["problem_id"]: row for row in parley_process(home, "sql", query, "--json").json()
    }
    assert episodes[broken]["stop_reason"] == "infra"


def test_the_official_images_are_all_that_a_run_needs(
    official: Official, home: Path, server_url: str, tmp_path: Path
) -> None:
    data, subject = tmp_path / "data.jsonl", tmp_path / "subject.jsonl"
    rows = [
        json.loads(line)
        for line in (SAMPLE / "sample.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    data.write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows if row["instance_id"] in (LEDGER, RETRIER))
    )
    which = (
        "which python; python -c 'import pytest, retrier; print(retrier.__file__)'; ls -a /testbed"
    )
    asked = [("bash", {"command": which}), ("edit_file", FIX), ("finish", {"message": "Done."})]
    steps = [
        {"problem_id": RETRIER, "turn": 1, "step": step, "content": "", "calls": _call(step, *call)}
        for step, call in enumerate(asked)
    ]
    subject.write_text("".join(f"{json.dumps(step)}\n" for step in steps))
    models = (
        ("control:gold",),
        ("control:empty",),
        (f"recorded:{subject}", "--agent", "autonomous"),
    )
    environ = {**official.registry.variables, "PREFECT_API_URL": server_url}
    for model in models:
        run = (
            "run",
            f"{NAME}.first_query",
            "--data",
            data,
            "--resource",
            official.resource,
            "--workers",
            "1",
            "--model",
        )
        done = parley_process(
            home, *run, *model, "--max-fault-share", "1", "--json", environ=environ
        )
        assert done.code == 0, done.err
    query = "select problem_id, model, value from scores where metric = 'resolved'"
    found = parley_process(home, "sql", query, "--json").json()
    values = {
        (row["problem_id"], "agent" if "autonomous" in row["model"] else row["model"]): row["value"]
        for row in found
    }
    assert values[LEDGER, "control:gold"] == values[RETRIER, "control:gold"] == 1.0
    assert values[LEDGER, "control:empty"] == values[RETRIER, "control:empty"] == 0.0
    assert values[RETRIER, "agent"] == 1.0
    (run,) = parley_process(
        home, "sql", "select distinct sandbox, isolated from runs", "--json"
    ).json()
    assert run == {"sandbox": "docker", "isolated": True}
    (episode,) = parley_process(
        home,
        "sql",
        (
            f"select episode_id from scores where problem_id = '{RETRIER}' and model like "
            "'%autonomous%' limit 1"
        ),
        "--json",
    ).json()
    shown = parley_process(home, "show", episode["episode_id"]).out
    assert "/opt/miniconda3/envs/testbed/bin/python" in shown
    assert "built.egg-info" in shown


def _call(number: int, tool: str, arguments: dict[str, str]) -> list[dict[str, str]]:
    return [{"call_id": f"c{number}", "name": tool, "arguments": json.dumps(arguments)}]
