"""`parley run --profile`: what an endpoint takes is known before the first request, and what is
found out is kept.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gateways import fixed_temperature, no_seed
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.flows.parley_command import SAMPLE, Done, parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("served_home")]
MINE = "refused: [temperature, top_p]\ntoken_limit_name: max_completion_tokens\n"


def run(home: Path, server: ModelServer, *arguments: object) -> Done:
    spec = ("--model", f"openai:mock@{server.base_url}", "--revision", "r1")
    return parley(
        home,
        *SAMPLE,
        *spec,
        "--limit",
        2,
        "--sandbox",
        "none",
        "--json",
        "--max-tokens",
        99,
        *arguments,
    )


def profiles(home: Path, run_id: str) -> dict[str, Any]:
    (record,) = parley(
        home, "sql", "--json", f"SELECT profiles FROM runs WHERE run_id = '{run_id}'"
    ).json()
    return {entry["key"]: json.loads(entry["value"]) for entry in record["profiles"]}


def test_a_named_profile_is_never_refused_and_is_part_of_the_id(home: Path) -> None:
    folder, path = home / "profiles", home.parent / "mine.yaml"
    folder.mkdir(parents=True)
    for file in (folder / "mine.yaml", path):
        file.write_text(MINE)
    with model_server(refuse=fixed_temperature) as server:
        runs = [run(home, server, "--profile", "openai-reasoning").json()]
        n_asked = len(server.bodies)
        assert runs[0]["model_calls"] == n_asked
        runs += [run(home, server, "--profile", name).json() for name in ("mine", path)]
        assert runs[1]["model_calls"] == n_asked
        assert len(server.bodies) == 2 * n_asked, (
            "the name and the path are one profile, so its dialogues are kept ones"
        )
        runs.append(run(home, server).json())
        assert all(
            "max_completion_tokens" in body and "temperature" not in body
            for body in server.bodies[: 2 * n_asked]
        )
    ids = [line["run_id"] for line in runs]
    assert ids[1] == ids[2]
    assert len(set(ids)) == 3
    found = profiles(home, ids[3])["subject"]
    assert (found["refused"], found["token_limit_name"]) == (
        ["temperature"],
        "max_completion_tokens",
    )
    assert profiles(home, ids[0])["subject"]["refused"] == ["stop", "temperature", "top_p"]


def test_mistral_s_profile_suits_mistral_s_refusals(home: Path) -> None:
    with model_server(refuse=no_seed) as server:
        done = run(home, server, "--profile", "mistral").json()
        assert done["model_calls"] == len(server.bodies)
        assert not any("seed" in body for body in server.bodies)


def test_where_thoughts_are_is_kept_with_the_run(home: Path) -> None:
    thought = Reply(
        content="<think>hm</think>\n```python\nx = 1\n```",
        fields=(("reasoning_content", "Let me see."),),
    )
    with model_server(choose=lambda *_: thought) as server:
        done = run(home, server).json()
    assert profiles(home, done["run_id"])["subject"]["thoughts"] == ["reasoning_content", "tags"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "refuses: [seed]\n",
            "refuses: Extra inputs are not permitted. Its fields: messages, reasoning_fields",
        ),
        ("messages: joined\n", "messages: Input should be 'native', 'merged' or 'auto'"),
        ("reasoning_tags: thinks\n", "unknown reasoning tag 'thinks'"),
        ("- seed\n", "not a mapping of profile fields"),
        ("a: [\n", "Its fields:"),
        (None, "the file cannot be read"),
    ],
)
def test_a_faulty_profile_is_refused_before_anything_is_asked(
    home: Path, text: str | None, message: str
) -> None:
    path = home.parent / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with model_server() as server:
        done = run(home, server, "--profile", path)
        assert (done.code, server.bodies) == (2, [])
    assert message in done.err


def test_an_unknown_profile_is_refused_with_the_known_names(home: Path) -> None:
    with model_server() as server:
        done = run(home, server, "--profile", "gpt")
        assert (done.code, server.bodies) == (2, [])
    assert (
        "unknown profile 'gpt'; known: anthropic-compatible, mistral, openai-reasoning, vllm"
        in done.err
    )
    assert "--profile PATH.yaml" in done.err
