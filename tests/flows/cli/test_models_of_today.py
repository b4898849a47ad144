"""`parley run` against endpoints as they are today: thinking models, refused parameters, strict
templates.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gateways import fixed_temperature, strict_roles
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.flows.parley_command import SAMPLE, Done, parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("served_home")]


def ask(home: Path, sql: str) -> Any:
    return parley(home, "sql", "--json", sql).json()


def run(home: Path, server: ModelServer, *arguments: object) -> Done:
    spec = f"openai:mock@{server.base_url}"
    return parley(
        home,
        *SAMPLE,
        "--model",
        spec,
        "--revision",
        "r1",
        "--limit",
        2,
        "--sandbox",
        "none",
        *arguments,
    )


def test_a_run_goes_on_without_what_the_endpoint_refuses_and_its_record_says_so(home: Path) -> None:
    def refuse(body: dict[str, Any]) -> Reply | None:
        return fixed_temperature(body) or strict_roles(body)

    with model_server(refuse=refuse) as server:
        done = run(home, server)
        assert done.code == 0, done.err
        assert not any("temperature" in body for body in server.bodies[-3:])
    assert "requests to the subject's endpoint adapted: without temperature" in done.out
    (record,) = ask(home, "SELECT status, adapted FROM runs")
    assert record["status"] == "finished"
    assert record["adapted"] == [{"key": "subject", "value": "without temperature"}]
    assert {
        tuple(row["adapted"])
        for row in ask(home, "SELECT adapted FROM steps WHERE role = 'assistant'")
    } == {("without temperature",)}


def test_the_default_temperature_is_not_sent_and_is_another_run(home: Path) -> None:
    with model_server() as server:
        first = run(home, server, "--json").json()
        assert all(body["temperature"] == 0 and "top_p" not in body for body in server.bodies)
        n_before = len(server.bodies)
        second = run(home, server, "--json", "--temperature", "default").json()
        assert not any("temperature" in body for body in server.bodies[n_before:])
    assert first["run_id"] != second["run_id"]


def test_an_unknown_reasoning_tag_is_refused_before_anything_is_asked(home: Path) -> None:
    with model_server() as server:
        done = run(home, server, "--reasoning-tags", "think,thinks")
        assert done.code == 2
        assert server.bodies == []
    assert "unknown reasoning tag 'thinks'; known: auto, none, think, thinking," in done.err
    assert "--reasoning-tags think,mistral" in done.err
    assert not (home / "lake" / "runs").exists()
