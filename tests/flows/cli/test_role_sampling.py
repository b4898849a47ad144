"""`parley run` whose roles have sampling and system texts of their own; thoughts in costs and
budgets.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.fixtures.whole_cast import answer_any_role
from tests.flows.parley_command import SAMPLE, parley
from tests.secrets.searching import in_files, in_parquet

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("served_home")]
DEPLOYED, PERSONA = "You are deployed at Acme.", "/no_think"
TALK = (
    "run",
    "talk2code.interactive_judged",
    "--dataset-version",
    "sample",
    "--workers",
    1,
    "--sandbox",
    "none",
    "--limit",
    1,
)
REVISIONS = ("--revision", "r1", "--simulator-revision", "r1", "--judge-revision", "r1", "--json")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(models=("mock", "user", "judge"), refuse=answer_any_role) as server:
        yield server


def ask(home: Path, sql: str) -> Any:
    return parley(home, "sql", "--json", sql).json()


def bodies_of(server: ModelServer, model: str) -> list[dict[str, Any]]:
    found = [body for body in server.bodies if body["model"] == model]
    assert found, f"{model} was not asked"
    return found


def test_each_role_has_its_own_sampling_and_system_text_and_the_tables_say_so(
    home: Path, server: ModelServer
) -> None:
    url = server.base_url
    (home.parent / "deployed.txt").write_text(f"{DEPLOYED}\n")
    (home.parent / "persona.txt").write_text(PERSONA)
    roles = (
        f"openai:mock@{url},max_tokens=64",
        "--simulator",
        f"openai:user@{url},temperature=0.7,system_prompt=persona.txt",
    )
    judge = (
        "--judge",
        f"experience=openai:judge@{url},max_tokens=900",
        "--judge",
        f"openai:judge@{url}",
    )
    more = (
        "--system-prompt",
        "deployed.txt",
        "--judge-temperature",
        "default",
        "--judge-top-p",
        "0.9",
    )
    done = parley(home, *TALK, *roles, *judge, *more, *REVISIONS)
    assert done.code in (0, 3), done.err

    for body in bodies_of(server, "mock"):
        assert (body["temperature"], body["max_tokens"]) == (0, 64)
        system = [message["content"] for message in body["messages"] if message["role"] == "system"]
        assert len(system) == 1
        assert system[0].startswith(f"{DEPLOYED}\n\n")
        assert len(system[0]) > len(DEPLOYED) + 50, "the benchmark's own text follows"
    for body in bodies_of(server, "user"):
        assert (body["temperature"], body["max_tokens"]) == (0.7, 512), (
            "not the subject's, and not 0"
        )
        assert body["messages"][0] == {"role": "system", "content": PERSONA}
        assert body["messages"][1]["role"] == "user"
    assert {(body.get("temperature"), body["top_p"]) for body in bodies_of(server, "judge")} == {
        (None, 0.9)
    }
    assert {body.get("max_tokens") for body in bodies_of(server, "judge")} == {None, 900}

    columns = "role, rubric, model, temperature, top_p, max_tokens, length(system_prompt) AS n"
    rows = ask(home, f"SELECT {columns} FROM run_samplings ORDER BY role DESC, rubric")
    assert [tuple(row.values()) for row in rows] == [
        ("subject", "", "openai:mock", 0.0, 1.0, 64, 32),
        ("simulator", "", "openai:user", 0.7, 1.0, 512, 32),
        ("judge", "entities", "openai:judge", None, 0.9, None, 0),
        ("judge", "experience", "openai:judge", None, 0.9, 900, 0),
        ("judge", "user_level", "openai:judge", None, 0.9, None, 0),
    ]
    for text in (DEPLOYED, PERSONA):
        assert in_parquet(home, text) == []
    assert in_files(home / "lake", DEPLOYED) == []


def test_a_simulator_without_sampling_of_its_own_has_the_settings(
    home: Path, server: ModelServer
) -> None:
    url = server.base_url
    models = (
        "--model",
        f"openai:mock@{url}",
        "--simulator",
        f"openai:user@{url}",
        "--judge",
        f"openai:judge@{url}",
    )
    ids: list[str] = []
    for more, bound in (
        ((), 512),
        (("--max-tokens", 100), 100),
        (("--max-tokens", 100, "--simulator-max-tokens", 2000), 2000),
    ):
        server.reset()
        ids.append(json.loads(parley(home, *TALK, *models, *REVISIONS, *more).out)["run_id"])
        assert {
            (body["temperature"], body["max_tokens"]) for body in bodies_of(server, "user")
        } == {(0, bound)}
    assert len(set(ids)) == 3
    rows = ask(home, "SELECT run_id, max_tokens FROM run_samplings WHERE role = 'simulator'")
    assert {row["run_id"]: row["max_tokens"] for row in rows} == dict(
        zip(ids, (512, 100, 2000), strict=True)
    )


def test_the_text_of_a_system_prompt_is_in_the_id_and_its_path_is_not(
    home: Path, server: ModelServer
) -> None:
    command = (
        *SAMPLE,
        f"openai:mock@{server.base_url}",
        "--revision",
        "r1",
        "--limit",
        1,
        "--sandbox",
        "none",
        "--json",
    )
    for name, text in (("a.txt", "Be brief."), ("b.txt", "Be brief.\n"), ("c.txt", "Be long.")):
        (home.parent / name).write_text(text)
    names = ("a.txt", "b.txt", "c.txt")
    a, b, c = (parley(home, *command, "--system-prompt", name).json()["run_id"] for name in names)
    assert a == b != c
    missing = parley(home, *command, "--system-prompt", "d.txt")
    assert (missing.code, "system prompt d.txt: No such file" in missing.err) == (2, True)
    config = home.parent / "night.yaml"
    model = f'{{spec: "openai:mock@{server.base_url}", revision: r1, system_prompt: a.txt}}'
    entry = "{name: codeif.static, dataset_version: sample, limit: 1}"
    config.write_text(f"sandbox: none\nworkers: 1\nmodels: [{model}]\nbenchmarks: [{entry}]\n")
    n_before = len(server.bodies)
    assert parley(home, "nightly", "--config", config).code == 0
    assert len(server.bodies) == n_before, "the night's run is that of the command"


@pytest.mark.parametrize("is_beside", [False, True], ids=["within", "beside"])
def test_thoughts_are_billed_once_wherever_a_vendor_counts_them(
    home: Path, server: ModelServer, is_beside: bool
) -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 90}}
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 10 if is_beside else 100,
        "total_tokens": 120,
        **details,
    }
    server.answer = lambda _: Reply(content="```python\nx = 1\n```", body=(("usage", usage),))
    command = (
        *SAMPLE,
        "--model",
        f"openai:mock@{server.base_url}",
        "--revision",
        "r1",
        "--limit",
        1,
        "--sandbox",
        "none",
    )
    cut = parley(home, *command, "--budget", "tokens=115")
    assert (cut.code, len(server.bodies)) == (4, 1), "one answer has 120 tokens"
    assert parley(home, *command, "--price", 1, 10).code == 0
    (row,) = ask(
        home, "SELECT calls, input_tokens, output_tokens, reasoning_tokens, usd FROM costs"
    )
    n = row["calls"]
    assert n > 1
    assert row == {
        "calls": n,
        "input_tokens": 20 * n,
        "output_tokens": 100 * n,
        "reasoning_tokens": 90 * n,
        "usd": pytest.approx(n * (20 + 1000) / 1e6),
    }


def test_the_model_under_test_is_named_once(home: Path) -> None:
    for arguments in ((), ("control:gold", "--subject", "control:gold")):
        done = parley(home, *SAMPLE, *arguments)
        assert done.code == 2
        assert "--subject" in done.err
