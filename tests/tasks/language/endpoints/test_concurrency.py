"""The adaptive limit: additive up, multiplicative down, in order, nothing lost when a waiter is
cancelled.
"""

import asyncio

import pytest

from tasks.language.endpoints.pacing import AdaptiveLimit


def test_an_overload_halves_the_limit_once_for_all_requests_that_were_out() -> None:
    async def scenario() -> None:
        limit = AdaptiveLimit(16)
        tickets = [await limit.acquire() for _ in range(16)]
        assert (limit.limit, limit._n_out) == (16, 16)
        for ticket in tickets:
            limit.overloaded(ticket)
            limit.release()
        assert (limit.limit, limit._n_out) == (8, 0)
        limit.overloaded(await limit.acquire())
        assert limit.limit == 4

    asyncio.run(scenario())


def test_answers_raise_the_limit_back_to_the_concurrency_and_not_beyond() -> None:
    async def scenario() -> None:
        limit = AdaptiveLimit(8)
        limit.overloaded(await limit.acquire())
        limit.release()
        seen = []
        for _ in range(40):
            limit.succeeded(await limit.acquire())
            limit.release()
            seen.append(limit.limit)
        assert seen[0] == 4
        assert seen == sorted(seen)
        assert seen.index(5) in (3, 4)  # about one limit's worth of answers for one step
        assert seen[-1] == 8

    asyncio.run(scenario())


def test_an_answer_to_a_request_from_before_the_decrease_raises_nothing() -> None:
    async def scenario() -> None:
        limit = AdaptiveLimit(64)
        old, newest = await limit.acquire(), await limit.acquire()
        limit.overloaded(newest)
        before = limit._window
        limit.succeeded(old)
        assert limit._window == before

    asyncio.run(scenario())


def test_never_below_its_floor() -> None:
    async def scenario() -> None:
        limit = AdaptiveLimit(4)
        for _ in range(10):
            limit.overloaded(await limit.acquire())
            limit.release()
        assert limit.limit == 1

    asyncio.run(scenario())


def test_waiters_go_in_order_and_a_retry_goes_first() -> None:
    async def scenario() -> list[str]:
        limit, order = AdaptiveLimit(1), []
        await limit.acquire()

        async def wait(name: str, again: bool = False) -> None:
            await limit.acquire(again=again)
            order.append(name)
            limit.release()

        tasks = [
            asyncio.create_task(wait(name, name == "retry"))
            for name in ("first", "second", "retry")
        ]
        await asyncio.sleep(0)
        limit.release()
        await asyncio.gather(*tasks)
        assert limit._n_out == 0
        return order

    assert asyncio.run(scenario()) == ["retry", "first", "second"]


def test_cancelled_waiters_lose_no_place() -> None:
    async def scenario() -> int:
        limit = AdaptiveLimit(1)
        await limit.acquire()
        waiting = [asyncio.create_task(limit.acquire()) for _ in range(4)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # still in the queue
        limit.release()  # hands the place to the second ...
        waiting[1].cancel()  # ... which is cancelled before it runs
        await asyncio.sleep(0.01)
        assert waiting[2].done()
        limit.release()
        await waiting[3]
        return limit._n_out

    assert asyncio.run(scenario()) == 1


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_concurrency_below_one_is_refused(concurrency: int) -> None:
    with pytest.raises(ValueError, match=f"concurrency {concurrency}"):
        AdaptiveLimit(concurrency)


async def rounds(
    limit: AdaptiveLimit, capacity: int, count: int, faults_in_a_hundred: int = 0
) -> list[tuple[int, int]]:
    """An endpoint that serves `capacity` requests a round and refuses the others at once: (limit,
    served) after each round.

    Of a hundred served requests some fail for reasons of the endpoint's own.
    """
    seen, number = [], 0
    for _ in range(count):
        served: list[int] = []
        while limit._n_out < limit.limit:
            ticket = await limit.acquire()
            if len(served) < capacity:
                served.append(ticket)
            else:
                limit.overloaded(ticket)
                limit.release()
        for ticket in served:
            number += 1
            (limit.overloaded if number % 100 < faults_in_a_hundred else limit.succeeded)(ticket)
            limit.release()
        seen.append((limit.limit, len(served)))
    return seen


def test_it_settles_near_the_endpoint_s_capacity_and_returns_to_the_concurrency() -> None:
    async def scenario() -> None:
        limit = AdaptiveLimit(128)
        await rounds(limit, capacity=128, count=5)
        busy = await rounds(limit, capacity=32, count=60)
        settled = busy[8:]
        assert all(24 <= found <= 40 for found, _ in settled)
        assert sum(served for _, served in settled) >= 0.9 * 32 * len(settled)
        free = await rounds(limit, capacity=1000, count=40)
        assert free[-1][0] == 128
        assert next(i for i, (found, _) in enumerate(free) if found == 128) <= 26

    asyncio.run(scenario())


@pytest.mark.parametrize(("faults_in_a_hundred", "least"), [(1, 0.8), (3, 0.4)])
def test_a_few_errors_that_are_not_the_load_s_cost_little_of_the_concurrency(
    faults_in_a_hundred: int, least: float
) -> None:
    async def scenario() -> None:
        limit = AdaptiveLimit(256)
        seen = await rounds(
            limit, capacity=1000, count=100, faults_in_a_hundred=faults_in_a_hundred
        )
        assert sum(found for found, _ in seen[20:]) >= least * 256 * 80

    asyncio.run(scenario())
