"""Asked, repeated, refused and paid: the client counts what a server counts that answers, refuses,
breaks off or is gone.
"""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ModelUnavailable
from schemas.night.budget import Budget
from schemas.night.work import RequestCounts
from schemas.run import EmbedderIdentity, ModelEndpoint, ModelIdentity
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.chat_model import ChatRequest, Completion, CountedModel, Send
from tasks.language.embedding import EndpointEmbedder
from tasks.language.endpoints.endpoint_pool import EndpointPool
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.opening import StickyModel
from tasks.storage.ledger import SendLog, Sum, read_sends
from tasks.worker.budget_meter import BudgetMeter, metered
from tests.fixtures.http_wire import read_request, send
from tests.fixtures.model_server import Reply, model_server
from tests.tasks.language.requests import MOCK, QUICK, ask, model_on

EAGER = CallPolicy(concurrency=4, max_tries=4, backoff_s=0.001, max_backoff_s=0.002)
REFUSALS = {"401": 401, "403": 403, "404": 404, "429": 429, "503": 503, "too long": 400}
MOODS = (*REFUSALS, "answer", "without usage", "no JSON", "half", "reset", "504", "closed")
"""What becomes of one send.

`closed`: the server's port is closed. `504`: a gateway gave a model at work up.
"""


class CountingServer:
    """Counts by itself what it receives, refuses and works for.

    Each text has moods of its own, one a send, then answers.
    """

    def __init__(self, moods: Mapping[str, Sequence[str]]) -> None:
        self.moods = moods
        self.n_sends = Counter[str]()
        """Text -> sends, as the one who sends knows them: of a closed port the server itself learns
        nothing.
        """
        self.n_received = Counter[str]()
        self.n_refused = self.n_worked = 0
        self.chats = Counter[str]()
        """Mood -> whole answers to chat requests."""
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._changed = asyncio.Condition()
        self._n_under_way = 0

    def meets_closed_port(self, text: str) -> bool:
        """Whether the next send of a text does."""
        self.n_sends[text] += 1
        return _at(self.moods[text], self.n_sends[text]) == "closed"

    async def open(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._listener is not None
        self._listener.close()
        await self._listener.wait_closed()

    @asynccontextmanager
    async def sending(self, *, is_closed: bool) -> AsyncIterator[None]:
        """Hold the port open for a send, or close it while no other send is under way."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._n_under_way == 0 if is_closed else self._n_under_way >= 0
            )
            self._n_under_way += -1 if is_closed else 1
        try:
            if is_closed:
                await self.close()
            yield
        finally:
            if is_closed:
                await self.open()
            async with self._changed:
                self._n_under_way -= -1 if is_closed else 1
                self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        if request is not None:
            body = json.loads(request[3])
            text = text_of(body)
            self.n_received[text] += 1
            await self._reply(
                _at([one for one in self.moods[text] if one != "closed"], self.n_received[text]),
                body,
                writer,
            )
        writer.close()

    async def _reply(self, mood: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        alone = (("Connection", "close"),)
        if mood in REFUSALS:
            self.n_refused += 1
            message = (
                "This model's maximum context length is 10 tokens." if mood == "too long" else "no"
            )
            await send(writer, REFUSALS[mood], {"error": {"message": message}}, alone)
            return
        self.n_worked += 1
        if mood == "reset":
            writer.transport.abort()
        elif mood == "504":
            await send(writer, 504, "<html>upstream timed out</html>", alone)
        elif mood == "no JSON":
            await send(writer, 200, "<html>all is well</html>", alone)
        else:
            choices = [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "yes"},
                }
            ]
            found = (
                {"choices": choices}
                if "messages" in body
                else {"data": [{"index": 0, "embedding": [3.0, 4.0]}]}
            )
            self.chats[mood] += "messages" in body and mood != "half"
            usage = (
                {}
                if mood == "without usage"
                else {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}
            )
            await send(
                writer,
                200,
                {"model": body["model"], **found, **usage},
                alone,
                "truncated" if mood == "half" else "",
            )


class MoodyModel(OpenAIModel):
    """The client itself; each of its sends tells the server its mood."""

    server: CountingServer

    async def call(
        self, pool: EndpointPool, path: str, body: dict[str, Any] | None = None
    ) -> bytes | Fault:
        assert body is not None
        async with self.server.sending(is_closed=self.server.meets_closed_port(text_of(body))):
            return await super().call(pool, path, body)


def text_of(body: Mapping[str, Any]) -> str:
    return body["messages"][-1]["content"] if "messages" in body else body["input"][0]


def _at(moods: Sequence[str], number: int) -> str:
    return moods[number - 1] if number <= len(moods) else "answer"


async def play(moods: Mapping[str, Sequence[str]], folder: Path) -> tuple[CountingServer, int, Sum]:
    """Ask for every text at once, half of them for a vector.

    Return the server, the requests for answers that reached it as
    answers and errors tell, and what the budget's ledger has.
    """
    server, log = CountingServer(moods), SendLog(folder / "sends")
    await server.open()
    endpoint = ModelEndpoint(base_url=f"http://127.0.0.1:{server.port}/v1")
    model = MoodyModel(ModelAccess(MOCK, endpoint, policy=EAGER), environ={}, on_send=log.count)
    model.server = server
    budget_meter = BudgetMeter(str(folder / "ledger"), Budget(tokens=1_000_000), 0.0, "run")
    identity = EmbedderIdentity(provider="openai", name="mock", revision="r1")
    embedder = EndpointEmbedder(identity, lambda: ModelAccess(identity, endpoint))
    vars(embedder)["_model"] = model  # both requests pass through the moody client
    chat = metered(model, budget_meter)

    async def asked(number: int, text: str) -> int:
        try:
            if number % 2:
                return (await chat.complete(ask(text))).n_calls
            await embedder.embed([text])
        except ModelUnavailable as error:
            return error.n_calls if number % 2 else 0
        return 0

    reached = await asyncio.gather(*(asked(number, text) for number, text in enumerate(moods, 1)))
    await model.aclose()
    await server.close()
    log.close()
    spent = budget_meter.ledger.of_run("run")
    budget_meter.ledger.close()
    return server, sum(reached), spent


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(MOODS), max_size=5), min_size=1, max_size=6))
def test_the_four_numbers_are_the_servers_own(moods: list[list[str]]) -> None:
    by_text = {f"text {number}": one for number, one in enumerate(moods, 1)}
    with tempfile.TemporaryDirectory() as folder:
        server, n_reached, spent = asyncio.run(play(by_text, Path(folder)))
        found = read_sends(Path(folder) / "sends")
    n_sends, n_received = server.n_sends.total(), server.n_received.total()
    assert found.asked == len(server.n_sends)
    assert found.repeated == n_sends - len(server.n_sends)
    assert found.refused == server.n_refused + (n_sends - n_received), (
        "refused by the server, or sent to a closed port"
    )
    assert found.paid == server.n_worked
    assert found.asked + found.repeated == found.refused + found.paid == n_sends
    n_counted = server.chats["answer"]
    assert (spent.input_tokens, spent.output_tokens) == (3 * n_counted, n_counted)
    assert spent.n_estimated == server.chats["without usage"]
    assert n_reached == sum(n for text, n in server.n_received.items() if int(text.split()[1]) % 2)


def counts_of(sends: Sequence[Send]) -> RequestCounts:
    with tempfile.TemporaryDirectory() as folder:
        log = SendLog(Path(folder))
        for one in sends:
            log.count(one)
        log.close()
        return read_sends(Path(folder))


def test_a_cancelled_request_and_one_that_is_too_slow_may_have_been_paid_for() -> None:
    async def cancelled(model: OpenAIModel) -> None:
        task = asyncio.create_task(model.complete(ask()))
        while not server.bodies:
            await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await model.aclose()

    async def too_slow(model: OpenAIModel) -> None:
        with suppress(ModelUnavailable):
            await model.complete(ask())
        await model.aclose()

    for scenario, policy in (
        (cancelled, QUICK),
        (too_slow, CallPolicy(timeout_s=1.0, max_tries=1)),
    ):
        sends: list[Send] = []
        with model_server([Reply(fault="hang")]) as server:
            access = ModelAccess(MOCK, ModelEndpoint(base_url=server.base_url), policy=policy)
            asyncio.run(scenario(OpenAIModel(access, environ={}, on_send=sends.append)))
            assert (len(server.bodies), counts_of(sends)) == (1, RequestCounts(asked=1, paid=1))


def test_a_request_that_moves_to_another_server_is_asked_once() -> None:
    sends: list[Send] = []
    with model_server([Reply(status=503)]) as first, model_server() as second:
        policy = CallPolicy(concurrency=1, max_tries=1)
        accesses = [
            ModelAccess(MOCK, ModelEndpoint(base_url=server.base_url), policy=policy)
            for server in (first, second)
        ]

        async def play() -> Completion:
            model = StickyModel(
                [OpenAIModel(one, environ={}, on_send=sends.append) for one in accesses]
            )
            try:
                return await model.complete(ask())
            finally:
                await model.aclose()

        assert asyncio.run(play()).n_calls == 2
    assert counts_of(sends) == RequestCounts(asked=1, repeated=1, refused=1, paid=1)


def test_a_refused_key_is_found_out_by_one_send_and_no_other_request_counts_as_asked() -> None:
    with model_server(key="right") as server:
        sends: list[Send] = []

        async def play() -> list[object]:
            model = model_on(server, key="wrong")
            model._on_send = sends.append
            try:
                return await asyncio.gather(
                    *(model.complete(ask(str(n))) for n in range(5)), return_exceptions=True
                )
            finally:
                await model.aclose()

        assert all(isinstance(one, ModelUnavailable) for one in asyncio.run(play()))
        assert len(server.bodies) == 1
    assert counts_of(sends) == RequestCounts(asked=1, refused=1)


class PluggedIn:
    """A model of somebody else's, which says how many requests an answer took."""

    identity = ModelIdentity(provider="theirs", name="m", revision="1")

    def __init__(self, *outcomes: int | ModelUnavailable) -> None:
        self._outcomes = iter(outcomes)

    async def complete(self, request: ChatRequest) -> Completion:
        outcome = next(self._outcomes)
        if isinstance(outcome, ModelUnavailable):
            raise outcome
        return Completion("yes", n_calls=outcome)

    async def aclose(self) -> None:
        pass


def test_a_plug_ins_model_is_counted_by_its_answers() -> None:
    sends: list[Send] = []
    model = CountedModel(PluggedIn(3, 0, ModelUnavailable("gone", n_calls=2)), sends.append)

    async def play() -> None:
        await model.complete(ask())
        await model.complete(ask())
        with pytest.raises(ModelUnavailable):
            await model.complete(ask())

    asyncio.run(play())
    assert counts_of(sends) == RequestCounts(asked=2, repeated=3, refused=4, paid=1)
