"""Several servers of one model: a dialogue stays with its own, new ones are spread, and none is
lost with a server.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import ThreadingHTTPServer
from threading import Thread

import pytest

from schemas.dialog import Role
from schemas.errors import ModelUnavailable
from schemas.run import ModelEndpoint, ModelIdentity, Sampling
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.chat_model import ChatModel, ChatRequest, Message
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.opening import StickyModel, open_model
from tests.fixtures.vllm_program import Handler

IDENTITY = ModelIdentity(provider="vllm", name="m", revision="1")


class Servers:
    """Servers of one model that can be closed one by one. Each says its port."""

    def __init__(self, resources: ExitStack, number: int) -> None:
        self.gone = gone = set[int]()

        class Mortal(Handler):
            def do_POST(self) -> None:
                if self.server.server_address[1] in gone:
                    self.close_connection = True
                else:
                    super().do_POST()

        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), Mortal) for _ in range(number)]
        for server in self.servers:
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            resources.callback(server.server_close)
            resources.callback(server.shutdown)
        self.ports = [server.server_address[1] for server in self.servers]

    @property
    def place(self) -> ModelEndpoint:
        urls = tuple(f"http://127.0.0.1:{port}/v1" for port in self.ports)
        return ModelEndpoint(base_url=urls[0], replicas=urls, served_name="d")

    def close(self, port: int) -> None:
        """End it as a killed process does: connections that were kept break off."""
        server = self.servers[self.ports.index(port)]
        self.gone.add(port)
        server.shutdown()
        server.server_close()


@pytest.fixture
def three() -> Iterator[Servers]:
    with ExitStack() as resources:
        yield Servers(resources, 3)


def impatient(place: ModelEndpoint) -> StickyModel:
    policy = CallPolicy(concurrency=2, max_tries=1)
    return StickyModel(
        [
            OpenAIModel(
                ModelAccess(IDENTITY, place.model_copy(update={"base_url": url}), policy=policy)
            )
            for url in place.replicas
        ]
    )


async def asked(model: ChatModel, problem: int, turn: int) -> int:
    request = ChatRequest((Message(Role.USER, "one two"),), Sampling(), 0, f"p{problem}", turn, 0)
    said = await model.complete(request)
    return int(said.content.removeprefix("port "))


def test_a_dialogue_stays_with_its_server_and_new_ones_are_spread(three: Servers) -> None:
    async def play() -> list[list[int]]:
        model = open_model(ModelAccess(IDENTITY, three.place).limited(6))
        try:
            return [
                list(await asyncio.gather(*(asked(model, problem, turn) for problem in range(9))))
                for turn in range(1, 5)
            ]
        finally:
            await model.aclose()

    turns = asyncio.run(play())
    assert all(turn == turns[0] for turn in turns)
    assert Counter(turns[0]) == dict.fromkeys(three.ports, 3)


def test_the_dialogues_of_a_server_that_is_gone_go_on_elsewhere_and_stay_there(
    three: Servers,
) -> None:
    async def play() -> tuple[list[int], list[int], list[int]]:
        model = impatient(three.place)
        try:
            first = [await asked(model, problem, 1) for problem in range(6)]
            three.close(first[0])
            return (
                first,
                [await asked(model, problem, 2) for problem in range(6)],
                [await asked(model, p, 3) for p in range(6)],
            )
        finally:
            await model.aclose()

    first, second, third = asyncio.run(play())
    kept = [(a, b) for a, b in zip(first, second, strict=True) if a != first[0]]
    assert all(a == b for a, b in kept)
    assert first[0] not in second
    assert third == second


def test_a_request_fails_where_no_server_is_left(three: Servers) -> None:
    async def play() -> None:
        model = impatient(three.place)
        try:
            for port in three.ports:
                three.close(port)
            await asked(model, 1, 1)
        finally:
            await model.aclose()

    with pytest.raises(ModelUnavailable):
        asyncio.run(play())
