"""`parley run` against chat templates that refuse a system role, two messages of one role in a row,
or an empty answer.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gateways import strict_roles
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.fixtures.whole_cast import answer_any_role
from tests.flows.parley_command import SAMPLE, Done, parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("served_home")]
TALK = (
    "run",
    "talk2code.interactive",
    "--dataset-version",
    "sample",
    "--workers",
    1,
    "--limit",
    1,
    "--concurrency",
    1,
)


def rows(home: Path, sql: str) -> Any:
    return parley(home, "sql", "--json", sql).json()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(models=("mock", "user")) as server:
        server.refuse = lambda body: strict_roles(body) or answer_any_role(body)
        yield server


def talk(home: Path, server: ModelServer, *arguments: object) -> Done:
    models = (
        "--model",
        f"openai:mock@{server.base_url}",
        "--simulator",
        f"openai:user@{server.base_url}",
    )
    revisions = ("--revision", "r1", "--simulator-revision", "r1")
    return parley(home, *TALK, *models, *revisions, "--sandbox", "none", "--json", *arguments)


def done_json(done: Done) -> Any:
    """What a command printed as JSON, however it ended."""
    return json.loads(done.out)


def native(server: ModelServer, model: str) -> int:
    """Number of a model's requests that held a system message."""
    bodies = [body for body in server.bodies if body["model"] == model]
    return sum(any(message["role"] == "system" for message in body["messages"]) for body in bodies)


def test_a_template_without_a_system_role_is_found_out_once(
    home: Path, server: ModelServer
) -> None:
    done = talk(home, server)
    assert done.code == 0, done.err
    assert native(server, "mock") == 1
    assert done.json()["model_calls"] == len(server.bodies)
    (record,) = rows(home, "SELECT status, adapted FROM runs")
    adapted = {entry["key"]: entry["value"] for entry in record["adapted"]}
    assert adapted == {"subject": "merged messages"}, "the simulator's messages have no system role"


def test_a_form_that_is_named_needs_no_refusal_and_is_another_run(
    home: Path, server: ModelServer
) -> None:
    found_out = talk(home, server).json()["run_id"]
    n_before = len(server.bodies)
    named = talk(home, server, "--messages", "merged", "--simulator-messages", "merged").json()[
        "run_id"
    ]
    assert named != found_out
    assert not any(
        m["role"] == "system" for body in server.bodies[n_before:] for m in body["messages"]
    )
    n_before = len(server.bodies)
    assert talk(home, server, "--messages", "auto").json()["run_id"] == found_out
    assert len(server.bodies) == n_before, "auto is the default, so the dialogues are kept ones"


def test_native_messages_that_are_refused_end_the_run_with_the_remedy(
    home: Path, server: ModelServer
) -> None:
    done = talk(home, server, "--messages", "native")
    assert done.code != 0
    assert "System role not supported" in done.out + done.err
    assert "Use --messages merged, or auto" in done.out + done.err
    assert native(server, "mock") == len(server.bodies) == done_json(done)["episodes"], (
        "none is asked again"
    )


def refuse_empty_answers(body: dict[str, Any]) -> Reply | None:
    """Mistral: an answer of the history has text."""
    if any(
        message["role"] == "assistant" and not message["content"].strip()
        for message in body["messages"]
    ):
        return Reply(
            400, message="Assistant message must have either content or tool_calls, but not none."
        )
    return strict_roles(body)


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_answer_does_not_break_its_dialogue(home: Path, empty: str) -> None:
    with model_server([Reply(content=empty)], refuse=refuse_empty_answers) as server:
        spec = f"openai:mock@{server.base_url}"
        run = (
            "--model",
            spec,
            "--revision",
            "r1",
            "--limit",
            2,
            "--sandbox",
            "none",
            "--concurrency",
            1,
            "--json",
        )
        done = parley(home, *SAMPLE, *run)
        assert done.code == 0, done.err
        assert done.json()["model_calls"] == len(server.bodies)
    (record,) = rows(home, "SELECT status, n_empty, n_infra, adapted FROM runs")
    merged = [{"key": "subject", "value": "merged messages"}]
    assert record == {"status": "finished", "n_empty": 1, "n_infra": 0, "adapted": merged}
    assert rows(home, "SELECT DISTINCT stop_reason FROM episodes") == [{"stop_reason": "finished"}]


def test_a_faulty_form_is_refused_before_anything_is_asked(home: Path, server: ModelServer) -> None:
    done = talk(home, server, "--messages", "joined")
    assert (done.code, server.bodies) == (2, [])
    assert "messages = 'joined': Input should be 'native', 'merged' or 'auto'" in done.err


def test_a_control_takes_no_form(home: Path) -> None:
    done = parley(home, *SAMPLE, "--model", "control:gold", "--messages", "merged")
    assert done.code == 2
    assert "so --messages and --profile have no effect" in done.err
