"""How the adaptive limit falls when an endpoint grows too busy, stays near what it can do, and
comes back.

`python -m tests.bench.concurrency_recovery` sends dialogues through the model client to a local
server that answers 429 above a capacity for some seconds, and prints a row every 0.25 s. It needs
about 15 s, and nothing but this checkout.
"""

import argparse
import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from schemas.dialog import Role
from schemas.run import ModelEndpoint, ModelIdentity, Sampling
from tasks.language.access import CallPolicy, ModelAccess
from tasks.language.chat_model import ChatRequest, Message
from tasks.language.endpoints.openai_model import OpenAIModel
from tests.fixtures.model_server import ModelServer, model_server

IDENTITY = ModelIdentity(provider="openai", name="mock", revision="r1")
ROW_S = 0.25
_BAR = 48


@dataclass(frozen=True)
class Load:
    """What is asked of whom. Seconds and requests."""

    concurrency: int = 128
    capacity: int = 32
    latency_s: float = 0.2
    free_s: float = 2.0
    """Before the server grows busy."""
    busy_s: float = 6.0
    recovery_s: float = 7.0


@dataclass(frozen=True)
class Row:
    """What was so at one moment, and what came since the row before."""

    at_s: float
    limit: int
    at_server: int
    answers: int
    refusals: int
    is_busy: bool


async def watch(server: ModelServer, load: Load) -> list[Row]:
    """Keep the concurrency's worth of requests waiting through all three phases; a row every 0.25
    s.
    """
    model = OpenAIModel(
        ModelAccess(
            IDENTITY,
            ModelEndpoint(base_url=server.base_url),
            policy=CallPolicy(concurrency=load.concurrency),
        ),
        environ={},
    )
    numbers = itertools.count()
    await _ask(model, next(numbers))  # imports and first connection, before the clock starts
    asking = [asyncio.create_task(_ask_on(model, numbers)) for _ in range(load.concurrency)]
    try:
        return [row async for row in _rows(server, model, load)]
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await model.aclose()


async def _ask_on(model: OpenAIModel, numbers: Iterator[int]) -> None:
    for number in numbers:
        await _ask(model, number)


async def _ask(model: OpenAIModel, number: int) -> None:
    await model.complete(
        ChatRequest((Message(Role.USER, f"q{number}"),), Sampling(), 0, "p/1", 1, 0)
    )


async def _rows(server: ModelServer, model: OpenAIModel, load: Load) -> AsyncIterator[Row]:
    loop = asyncio.get_running_loop()
    begun_s, ends_s = loop.time(), load.free_s + load.busy_s + load.recovery_s
    answered = refused = 0
    for number in itertools.count(1):
        await asyncio.sleep(begun_s + number * ROW_S - loop.time())
        at_s = loop.time() - begun_s
        is_busy = load.free_s <= at_s < load.free_s + load.busy_s
        yield Row(
            at_s,
            model.pool().limit.limit,
            server.in_flight,
            server.answered - answered,
            server.refused - refused,
            server.capacity is not None,
        )
        answered, refused = server.answered, server.refused
        server.capacity = load.capacity if is_busy else None
        if at_s >= ends_s:
            return


def measure(load: Load) -> list[Row]:
    """One run against a server of its own."""
    with model_server(latency_s=load.latency_s) as server:
        return asyncio.run(watch(server, load))


def text_of(rows: list[Row], load: Load) -> str:
    """The table, a bar for the limit in each row, and the figures that matter."""
    lines = [f"{'s':>6} {'limit':>6} {'at server':>10} {'answers/s':>10} {'429':>5}"]
    for row in rows:
        bar = "#" * round(row.limit / load.concurrency * _BAR)
        mark = "busy" if row.is_busy else ""
        lines.append(
            f"{row.at_s:6.2f} {row.limit:6d} {row.at_server:10d} {row.answers / ROW_S:10.0f} "
            f"{row.refusals:5d} {mark:4} {bar}"
        )
    busy = [row for row in rows if row.is_busy][4:]
    ideal = load.capacity / load.latency_s
    served = sum(row.answers for row in busy) / (len(busy) * ROW_S)
    limits = sorted(row.limit for row in busy)
    after = [row for row in rows if row.at_s > load.free_s + load.busy_s + ROW_S]
    back_s = next(
        (row.at_s - load.free_s - load.busy_s for row in after if row.limit >= load.concurrency),
        None,
    )
    lines += [
        f"busy, after its first second: {served / ideal:.0%} of what the capacity of "
        f"{load.capacity} allows,"
        f" limit {limits[0]} to {limits[-1]} (median {limits[len(limits) // 2]}),"
        " "
        f"{sum(row.refusals for row in busy) / max(1, sum(row.answers for row in busy)):.1%} "
        "refusals per answer",
        f"back at the concurrency of {load.concurrency}: "
        + ("not within the time" if back_s is None else f"{back_s:.1f} s after the end"),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--concurrency", type=int, default=Load.concurrency)
    parser.add_argument("--capacity", type=int, default=Load.capacity)
    parser.add_argument("--latency-s", type=float, default=Load.latency_s)
    arguments = parser.parse_args()
    load = Load(arguments.concurrency, arguments.capacity, arguments.latency_s)
    print(text_of(measure(load), load))


if __name__ == "__main__":
    main()
