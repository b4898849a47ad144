"""A run's cost has one definition: endpoints, the printed summary, `costs` and the paper's Table 1
agree.
"""

import csv
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.embedding_server import embedding_server
from tests.fixtures.model_server import ModelServer, model_server
from tests.fixtures.replies import Reply
from tests.flows.parley_command import ask, parley
from tests.warehouse.earlier_marts import differing_tables

pytestmark = [pytest.mark.slow, pytest.mark.long]
ROLES = ("subject", "simulator", "judge")
TOKENS = {"subject": (12_000, 500), "simulator": (700, 70), "judge": (3_000, 30)}
"""Input and output tokens that each endpoint counts for each answer."""
PRICES = {"subject": (1.25, 10.0), "simulator": (0.1, 0.4), "judge": (0.5, 2.0)}
"""USD per million tokens."""
USD = {
    role: (TOKENS[role][0] * PRICES[role][0] + TOKENS[role][1] * PRICES[role][1]) / 1e6
    for role in ROLES
}
_PAID = re.compile(r"paid: (\d+) model calls, (\d+) tokens in and (\d+) out, (\S+) USD")
_RUN = re.compile(r"\(run ([0-9a-f]{12})\)")
_DRIFT = re.compile(r"(\d+) requests to measure judge drift")


@dataclass(frozen=True)
class Sized:
    """One small run of a benchmark, with all roles that it has.

    Attributes:
        roles: beside the subject.
        has_embedder: whether vectors are asked for, which are no part of a run's cost.
    """

    setting: str
    roles: tuple[str, ...]
    more: tuple[str, ...] = ()
    has_embedder: bool = False


RUNS = (
    Sized(
        "talk2code.interactive_measured",
        ("simulator", "judge"),
        ("--option", "turns=2", "--option", "level_sample=all"),
        has_embedder=True,
    ),
    Sized("dialogue_swebench.full_judged", ("simulator", "judge"), ("--agent", "interactive")),
    Sized("unidial.safedialbench", ("judge",)),
    Sized("codeif.dynamic", ()),
    Sized("convcode.live[f_c,f_e,f_v]", ("simulator",), ("--option", "turns=2")),
)


def usage(role: str) -> tuple[tuple[str, Any], ...]:
    told, said = TOKENS[role]
    return (
        ("usage", {"prompt_tokens": told, "completion_tokens": said, "total_tokens": told + said}),
    )


def agent_s_answer(messages: list[dict[str, Any]]) -> Reply:
    """Look, ask the user, and end: three answers, or code where there are no tools."""
    called = [
        call["function"]["name"] for message in messages for call in message.get("tool_calls", ())
    ]
    calls = {
        0: (("bash", '{"command": "ls"}'),),
        1: (("message_user", '{"message": "What should happen?"}'),),
    }
    return Reply(
        calls=calls.get(len(called), (("finish", '{"message": "Done."}'),)),
        finish_reason="tool_calls",
        body=usage("subject"),
    )


def answers(role: str, setting: str) -> Any:
    """How a role answers.

    The simulator's word `Feedback:` is what ConvCodeWorld's prompt asks for.
    """
    if role == "subject" and setting.startswith("dialogue_swebench"):
        return agent_s_answer
    texts = {
        "subject": "```python\ndef solve():\n    return 1\n```",
        "simulator": "Feedback: It should be one.",
        "judge": "",
    }
    return lambda _messages: Reply(content=texts[role], body=usage(role))


def judged(body: dict[str, Any]) -> Reply | None:
    """A judge's answer: the first to a prompt cannot be read, the second has the form that is asked
    for.
    """
    is_first = len(body["messages"]) == 1
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return Reply(
        content="Well." if is_first else json.dumps(instance_of(schema, schema)),
        body=usage("judge"),
    )


def instance_of(schema: dict[str, Any], whole: dict[str, Any]) -> Any:
    """The least value of a JSON schema."""
    if "$ref" in schema:
        return instance_of(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in schema:
        return instance_of(schema["anyOf"][0], whole)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        return {
            name: instance_of(part, whole) for name, part in schema.get("properties", {}).items()
        }
    if kind == "array":
        return [instance_of(schema["items"], whole)] * schema.get("minItems", 0)
    return {"string": "x", "boolean": True}.get(kind, schema.get("minimum", 1))


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def played(
    home: Path, run: Sized, opened: ExitStack, limit: int = 1
) -> tuple[str, dict[str, ModelServer]]:
    """Play the run; returns what it printed, and the endpoints."""
    servers = {
        role: opened.enter_context(
            model_server(answer=answers(role, run.setting), models=(f"mock-{role}",))
        )
        for role in ("subject", *run.roles)
    }
    if "judge" in servers:
        servers["judge"].refuse = judged
    asked: tuple[object, ...] = (
        "run",
        run.setting,
        "--dataset-version",
        "sample",
        "--limit",
        limit,
        "--workers",
        "1",
        *run.more,
    )
    for role, server in servers.items():
        prefix = "" if role == "subject" else f"{role}-"
        named = f"--{'model' if role == 'subject' else role}"
        asked += (
            named,
            f"openai:mock-{role}@{server.base_url}",
            f"--{prefix}revision",
            "1",
            f"--{prefix}price",
            *PRICES[role],
        )
    if run.has_embedder:
        vectors = opened.enter_context(embedding_server())
        asked += (
            "--embedder",
            f"openai:mock-embedder@{vectors.base_url}",
            "--embedder-revision",
            "1",
            "--embedder-price",
            "0.02",
        )
    done = parley(home, *asked, "--max-fault-share", "1")
    assert done.code == 0, done.err
    return done.out, servers


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.setting.partition(".")[0])
def test_the_printed_summary_and_costs_are_what_the_endpoints_counted(
    standing_home: Path, opened: ExitStack, run: Sized, tmp_path: Path
) -> None:
    """A run of each benchmark in turn: the wide tables over all runs so far are compared with what
    their earlier SQL made.
    """
    out, servers = played(standing_home, run, opened)
    assert differing_tables(standing_home, tmp_path) == {}
    paid, found, drift = _PAID.search(out), _RUN.search(out), _DRIFT.search(out)
    assert paid, out
    assert found, out
    requests = {role: len(server.bodies) for role, server in servers.items()}
    if "judge" in requests:
        requests["judge"] -= int(drift[1]) if drift else 0
    assert min(requests.values()) > 0
    rows = ask(standing_home, f"select * from costs where run_id like '{found[1]}%'")
    assert {
        row["role"]: (row["calls"], row["input_tokens"], row["output_tokens"]) for row in rows
    } == {role: (n, n * TOKENS[role][0], n * TOKENS[role][1]) for role, n in requests.items()}
    assert {row["role"]: row["usd"] for row in rows} == pytest.approx(
        {role: n * USD[role] for role, n in requests.items()}
    )
    calls, told, said = (
        sum(row[name] for row in rows) for name in ("calls", "input_tokens", "output_tokens")
    )
    assert tuple(map(int, paid.groups()[:3])) == (calls, told, said)
    assert float(paid[4]) == pytest.approx(sum(row["usd"] for row in rows), rel=1e-5)


def test_table_1_has_the_cost_of_a_dialogue_to_the_cent(
    standing_home: Path, opened: ExitStack, tmp_path: Path
) -> None:
    """Two dialogues of three answers: 3 x (12,000 x 1.25 + 500 x 10) millionths of a USD each."""
    run = Sized("dialogue_swebench.full", ("simulator",), ("--agent", "interactive"))
    out, servers = played(standing_home, run, opened, limit=2)
    found = _RUN.search(out)
    assert found, out
    assert len(servers["subject"].bodies) == 6
    table1 = tmp_path / "table1.csv"
    assert (
        parley(
            standing_home, "export", "dialogue_swebench-agents", "--run", found[1], "--out", table1
        ).code
        == 0
    )
    (row,) = csv.DictReader(table1.read_text(encoding="utf-8").splitlines())
    assert (row["model"], row["n_dialogues"]) == ("openai:mock-subject+interactive", "2")
    assert (float(row["turns"]), float(row["steps"])) == (1.0, 3.0)
    assert float(row["usd"]) == pytest.approx(0.06, abs=1e-9)
