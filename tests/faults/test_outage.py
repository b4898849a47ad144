"""A model server that dies in the middle of a night: all requests wait for it together, and nothing
is lost when it is back.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from schemas.errors import ModelUnavailable
from tasks.language.access import CallPolicy, OutagePolicy
from tasks.language.chat_model import Completion
from tasks.language.endpoints.openai_model import OpenAIModel
from tests.fixtures.misbehaviour import MISBEHAVIOUR
from tests.fixtures.model_server import ModelServer, Reply, default_answer, model_server
from tests.tasks.language.requests import ask, model_on

IN_FLIGHT, DIALOGUES, ROUNDS = 16, 24, 4
POLICY = CallPolicy(
    concurrency=IN_FLIGHT,
    max_tries=4,
    backoff_s=0.2,
    max_backoff_s=0.4,
    outage=OutagePolicy(faults=6, silence_s=0.2, patience_s=30.0, pause_s=0.05, max_pause_s=0.2),
)


@dataclass
class Restartable:
    """A server that a test stops, and starts again on its port."""

    stack: ExitStack
    server: ModelServer
    port: int

    async def stop(self) -> None:
        await asyncio.to_thread(self.stack.close)

    async def start(self) -> None:
        self.server = await asyncio.to_thread(
            self.stack.enter_context, model_server(port=self.port, latency_s=0.05)
        )


@asynccontextmanager
async def restartable() -> AsyncIterator[Restartable]:
    with socket.socket() as place, ExitStack() as stack:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(
            ("127.0.0.1", 0)
        )  # and never listens: nobody else is given the port while the server is down
        port = place.getsockname()[1]
        yield Restartable(stack, stack.enter_context(model_server(port=port, latency_s=0.05)), port)


async def dialogue(model: OpenAIModel, number: int) -> list[Completion]:
    return [
        await model.complete(ask(f"dialogue {number} round {turn}", turn=turn))
        for turn in range(1, ROUNDS + 1)
    ]


async def until_down(model: OpenAIModel, more_probes: int = 0) -> None:
    watch = model.pool().watch
    while not watch.is_down:
        await asyncio.sleep(0.01)
    seen = watch.n_faults
    while watch.n_faults < seen + more_probes:
        await asyncio.sleep(0.01)


@pytest.mark.slow
def test_a_restart_of_the_server_loses_nothing_and_costs_few_calls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> tuple[list[Completion], int]:
        async with restartable() as there:
            model = model_on(there.server, policy=POLICY)
            night = asyncio.gather(*(dialogue(model, number) for number in range(DIALOGUES)))
            while there.server.answered < DIALOGUES:
                await asyncio.sleep(0.01)
            await there.stop()
            first = there.server.answered
            await until_down(model, more_probes=5)
            await there.start()
            answers = [answer for answers in await night for answer in answers]
            await model.aclose()
            return answers, first + there.server.answered

    answers, answered = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert [answer.content for answer in answers] == [
        default_answer([{"role": "user", "content": f"dialogue {number} round {turn}"}])
        for number in range(DIALOGUES)
        for turn in range(1, ROUNDS + 1)
    ]
    in_vain = sum(answer.n_calls for answer in answers) - len(answers)
    assert in_vain <= 4 * DIALOGUES, f"{in_vain} calls for finding out and for the probes"
    assert answered <= DIALOGUES * ROUNDS + IN_FLIGHT, (
        "answers that were cut off are all that was asked twice"
    )
    assert sum("has not answered since" in message for message in caplog.messages) == 1
    assert sum("answers again after" in message for message in caplog.messages) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["500", "503", "reset", "not JSON"])
def test_while_it_is_down_only_probes_reach_it(name: str) -> None:
    """Something still listens on the port: each call of the outage is counted there."""

    async def scenario(server: ModelServer) -> tuple[int, list[Completion]]:
        model = model_on(server, policy=POLICY)
        night = asyncio.gather(*(model.complete(ask(f"q{number}")) for number in range(64)))
        await until_down(model)
        before = len(server.bodies)
        await until_down(model, more_probes=4)
        probes = len(server.bodies) - before
        server.choose = None
        answers = await night
        await model.aclose()
        return probes, answers

    with model_server(choose=lambda *_: MISBEHAVIOUR[name]) as server:
        probes, answers = asyncio.run(asyncio.wait_for(scenario(server), 60))
    assert probes <= 4 + IN_FLIGHT, (
        "besides the probes, those that were under way when it was noticed"
    )
    assert len({answer.content for answer in answers}) == 64


@pytest.mark.slow
def test_when_patience_ends_all_fail_at_once_as_the_endpoint_s_fault() -> None:
    policy = CallPolicy(
        concurrency=IN_FLIGHT,
        max_tries=50,
        backoff_s=0.05,
        max_backoff_s=0.1,
        outage=OutagePolicy(faults=6, silence_s=0.1, patience_s=0.3, pause_s=0.1, max_pause_s=60.0),
    )

    async def scenario(server: ModelServer) -> list[Completion | BaseException]:
        model = model_on(server, policy=policy)
        outcomes = await asyncio.gather(
            *(model.complete(ask(f"q{n}")) for n in range(200)), return_exceptions=True
        )
        assert model.pool().limit._n_out == 0
        server.choose = None
        model.pool().watch.answered()  # as a probe of a later minute would find
        assert (await model.complete(ask())).n_calls == 1
        await model.aclose()
        return outcomes

    with model_server(choose=lambda *_: Reply(fault="reset")) as server:
        outcomes = asyncio.run(asyncio.wait_for(scenario(server), 60))
        calls = len(server.bodies) - 1
    faults = [outcome for outcome in outcomes if isinstance(outcome, ModelUnavailable)]
    assert len(faults) == len(outcomes) == 200
    assert not any(fault.permanent for fault in faults)
    assert all(
        "no answer since" in str(fault) and server.base_url in str(fault) for fault in faults
    )
    assert sum(fault.n_calls for fault in faults) == calls < 5 * 200, (
        "fifty tries each without the watch"
    )
