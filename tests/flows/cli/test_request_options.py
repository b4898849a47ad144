"""`parley run` with further fields, headers and query parameters of requests, for each role."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.fixtures.embedding_server import MODEL, EmbeddingServer, embedding_server
from tests.fixtures.model_server import ModelServer, Reply, model_server
from tests.fixtures.whole_cast import answer_any_role
from tests.flows.parley_command import SAMPLE, Done, parley
from tests.secrets.searching import in_files, in_parquet, in_warehouse

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("served_home")]
SECRET = "sk-parley-sentinel-31f7"
ENVIRON = {"GATEWAY_TOKEN": f"Bearer {SECRET}", "TEAM": "eu"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(models=("mock", "user", "judge"), refuse=answer_any_role) as server:
        yield server


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


def run(
    home: Path, server: ModelServer, *arguments: object, environ: Mapping[str, str] | None = None
) -> Done:
    spec = f"openai:mock@{server.base_url}"
    small = ("--limit", 1, "--sandbox", "none", "--revision", "r1")
    return parley(home, *SAMPLE, "--model", spec, *small, *arguments, environ=environ)


def extras_of(server: ModelServer, model: str) -> list[dict[str, Any]]:
    """The fields beyond Parley's own, each set of them once."""
    own = {"model", "messages", "temperature", "seed", "max_tokens", "response_format"}
    found = [
        {name: value for name, value in body.items() if name not in own}
        for body in server.bodies
        if body["model"] == model
    ]
    return [one for n, one in enumerate(found) if one not in found[:n]]


def test_each_role_has_its_own_fields_and_headers(
    home: Path, server: ModelServer, embedder: EmbeddingServer
) -> None:
    place = server.base_url
    models = {"model": "mock", "simulator": "user", "judge": "judge"}
    options = [
        text for role, name in models.items() for text in (f"--{role}", f"openai:{name}@{place}")
    ]
    options += ["--embedder", f"openai:{MODEL}@{embedder.base_url}"]
    options += [
        text
        for role in ("", "simulator-", "judge-", "embedder-")
        for text in (f"--{role}revision", "r1")
    ]
    options += [
        "--request",
        'reasoning_effort="low"',
        "--request",
        'chat_template_kwargs={"enable_thinking": false}',
    ]
    options += [
        "--simulator-request",
        "top_k=20",
        "--judge-request",
        "min_p=0.1",
        "--embedder-request",
        "dimensions=4",
    ]
    options += [
        "--header",
        "X-Team=TEAM",
        "--judge-header",
        "X-Judge=TEAM",
        "--embedder-header",
        "X-Vectors=TEAM",
    ]
    command = (
        "run",
        "talk2code.interactive_measured",
        "--dataset-version",
        "sample",
        "--workers",
        1,
        "--sandbox",
        "none",
    )
    done = parley(home, *command, "--limit", 1, *options, environ=ENVIRON)
    assert done.code in (0, 3), done.err
    assert extras_of(server, "mock") == [
        {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}
    ]
    assert extras_of(server, "user") == [{"top_k": 20}]
    assert extras_of(server, "judge") == [{"min_p": 0.1}]
    assert all(body["dimensions"] == 4 for body in embedder.bodies)
    assert all(headers["x-vectors"] == "eu" for headers in embedder.headers)
    for body, headers in zip(server.bodies, server.headers, strict=True):
        named = {name for name in ("x-team", "x-judge") if name in headers}
        assert named == {"mock": {"x-team"}, "user": set(), "judge": {"x-judge"}}[body["model"]]
    (spec,) = parley(home, "sql", "--json", "SELECT spec_json FROM runs").json()
    assert "TEAM" not in spec["spec_json"]
    assert json.loads(spec["spec_json"])["simulator_sampling"]["request"] == [["top_k", "20"]]


def test_fields_are_part_of_the_id_and_headers_are_not(home: Path, server: ModelServer) -> None:
    plain = run(home, server, "--json").json()["run_id"]
    n_before = len(server.bodies)
    same = run(home, server, "--json", "--header", "X-Team=TEAM", environ=ENVIRON).json()["run_id"]
    assert (same, len(server.bodies)) == (plain, n_before)
    asked = [
        run(home, server, "--json", "--request", f"top_k={k}").json()["run_id"]
        for k in ("20", "20.0", "21")
    ]
    assert asked[0] == asked[1]
    assert len({plain, *asked}) == 3
    assert len(server.bodies) == 3 * n_before


def test_a_nights_file_has_them_and_an_address_has_a_query(home: Path, server: ModelServer) -> None:
    config = home.parent / "night.yaml"
    spec = f"openai:mock@{server.base_url}?api-version=2026-10-01-preview&x=a%20b"
    model = (
        f'{{spec: "{spec}", revision: r1, request: {{top_k: 20}}, headers: {{api-key: '
        f"GATEWAY_TOKEN}}}}"
    )
    entry = "{name: codeif.static, dataset_version: sample, limit: 1}"
    config.write_text(f"sandbox: none\nworkers: 1\nmodels: [{model}]\nbenchmarks: [{entry}]\n")
    done = parley(home, "nightly", "--config", config, environ=ENVIRON)
    assert done.code == 0, done.err
    assert {body["top_k"] for body in server.bodies} == {20}
    assert {headers["api-key"] for headers in server.headers} == {f"Bearer {SECRET}"}
    assert not any("authorization" in headers for headers in server.headers)
    assert {path.partition("?")[0] for path in server.paths} == {
        "/v1/models",
        "/v1/chat/completions",
    }
    queries = {tuple(parse_qsl(path.partition("?")[2])) for path in server.paths}
    assert queries == {(("api-version", "2026-10-01-preview"), ("x", "a b"))}


def test_the_value_of_a_header_is_in_no_output_file_or_table(
    home: Path, server: ModelServer
) -> None:
    server.answer = lambda _: f"Your token is {SECRET}.\n```python\nx = 1\n```\n"
    server.script += [Reply(500)]
    done = run(home, server, "--header", "Authorization=GATEWAY_TOKEN", environ=ENVIRON)
    assert done.code == 0, done.err
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {SECRET}"}
    server.key = "another"
    refused = run(
        home, server, "--header", "Authorization=GATEWAY_TOKEN", "--seed", 5, environ=ENVIRON
    )
    assert refused.code == 1
    assert "(sent: [key])" in refused.err
    assert SECRET not in done.out + done.err + refused.out + refused.err
    (row,) = parley(
        home,
        "sql",
        "--json",
        "SELECT any_value(content) AS said FROM turns WHERE role = 'assistant'",
    ).json()
    assert row["said"].startswith("Your token is [key].")
    assert (in_files(home, SECRET), in_parquet(home, SECRET), in_warehouse(home, SECRET)) == (
        [],
        [],
        [],
    )


def test_a_short_value_of_a_header_changes_no_word_of_an_answer(
    home: Path, server: ModelServer
) -> None:
    server.answer = lambda _: "A neutral answer.\n```python\nx = 1\n```\n"
    assert run(home, server, "--header", "X-Team=TEAM", environ=ENVIRON).code == 0
    first = (
        "SELECT DISTINCT split_part(content, chr(10), 1) AS said FROM turns WHERE role = "
        "'assistant'"
    )
    assert parley(home, "sql", "--json", first).json() == [{"said": "A neutral answer."}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--request", "reasoning_effort=low"], "Quote a string: 'reasoning_effort=\"low\"'"),
        (["--request", "x=NaN"], "the value is not valid JSON"),
        (["--request", "x"], "--request 'x' does not have the form NAME=JSON"),
        (["--request", "x=1", "--request", "x=2"], "--request x occurs twice"),
        (["--request", "temperature=1"], "'temperature' is set by Parley: use --temperature"),
        (["--request", "stream=true"], "'stream' is set by Parley: remove it"),
        (["--request", 'extra={"api_key": "sk-1"}'], "with --header NAME=ENV_VARIABLE"),
        (["--request", "a b=1"], "'a b' is not a valid field name"),
        (
            ["--header", "X-Team=eu west"],
            "must be the name of an environment variable (it is not shown",
        ),
        (["--header", "X Team=TEAM"], "'X Team' is not a valid header name"),
        (["--header", "Content-Type=TEAM"], "'Content-Type' is set by Parley"),
        (["--header", "X-Team=TEAM", "--header", "x-team=TEAM"], "case does not count"),
        (
            ["--header", "X-Team=UNSET_VARIABLE"],
            "the environment variable UNSET_VARIABLE is not set",
        ),
    ],
)
def test_a_faulty_field_or_header_is_refused_before_anything_is_asked(
    home: Path, server: ModelServer, options: list[str], message: str
) -> None:
    done = run(home, server, *options, environ=ENVIRON)
    assert (done.code, server.bodies) == (2, [])
    assert message in done.err
    assert "eu west" not in done.err


def test_headers_of_a_model_without_an_endpoint_and_keys_in_a_query_are_refused(home: Path) -> None:
    for model, options in (
        ("control:gold", ("--header", "A=TEAM")),
        ("openai:m@https://a.test/v1?api-key=sk-1", ()),
    ):
        done = parley(home, *SAMPLE, "--model", model, *options)
        assert done.code == 2
        assert "sk-1" not in done.err
        assert (
            "--header NAME=ENV_VARIABLE" in done.err
            or "only endpoints (openai:) take headers" in done.err
        )
