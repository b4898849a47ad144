"""When an endpoint counts as down, who asks whether it is back, and what ends the waiting."""

import asyncio
import itertools
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from tasks.language.access import OutagePolicy
from tasks.language.endpoints.pacing import OutageWatch

AT_ONCE = OutagePolicy(faults=3, silence_s=0.0, patience_s=60.0, pause_s=0.01, max_pause_s=0.02)
URL = "http://127.0.0.1:9/v1"


async def fail(watch: OutageWatch, *, has_status: bool = False) -> None:
    """One request of its own that meets a fault."""

    async def request() -> None:
        watch.failed("no connection", has_status=has_status)

    await asyncio.create_task(request())


async def down(policy: OutagePolicy = AT_ONCE) -> OutageWatch:
    watch = OutageWatch(URL, policy)
    for _ in range(policy.faults):
        await fail(watch)
    assert watch.is_down
    return watch


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario, 20)

    asyncio.run(bounded())


def test_it_is_down_after_enough_faults_with_no_sign_of_life_between_them() -> None:
    async def scenario() -> None:
        watch = OutageWatch(URL, AT_ONCE)
        for _ in range(2):
            await fail(watch)
            await fail(watch)
            watch.answered()
        assert not watch.is_down
        for number in range(3):
            assert not watch.is_down, number
            await fail(watch)
        assert watch.is_down

    run(scenario())


@pytest.mark.slow
def test_a_burst_of_faults_is_suspect_but_no_outage_before_the_silence_has_lasted() -> None:
    async def scenario() -> None:
        watch = OutageWatch(URL, replace(AT_ONCE, silence_s=1.5))
        for _ in range(20):
            await fail(watch)
        assert watch.is_suspect
        assert not watch.is_down
        begun_s = asyncio.get_running_loop().time()
        while not watch.is_down:
            await asyncio.sleep(0.02)
            await fail(watch)
        assert asyncio.get_running_loop().time() - begun_s >= 0.75

    run(scenario())


@pytest.mark.parametrize(("has_status", "is_down"), [(True, False), (False, True)])
def test_a_single_request_that_the_endpoint_itself_fails_on_is_no_outage(
    has_status: bool, is_down: bool
) -> None:
    """A prompt that makes the server say 500 each time; where nobody listens, one request is
    enough.
    """

    async def scenario() -> None:
        watch = OutageWatch(URL, AT_ONCE)
        for _ in range(10):
            watch.failed("HTTP 500", has_status=has_status)
        assert watch.is_down is is_down
        watch.close()

    run(scenario())


def test_one_at_a_time_asks_and_a_sign_of_life_wakes_all(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        watch = await down()
        probing, probes = 0, 0

        async def request() -> None:
            nonlocal probing, probes
            while watch.is_down:
                assert await watch.wait()
                if not watch.is_down:
                    return
                assert watch.is_probe()
                probing, probes = probing + 1, probes + 1
                assert probing == 1
                await asyncio.sleep(0.005)
                probing -= 1
                if probes < 4:
                    watch.failed("no connection", has_status=False)
                else:
                    watch.answered()

        await asyncio.gather(*(request() for _ in range(50)))
        assert probes == 4

    with caplog.at_level(logging.WARNING, "parley.endpoint"):
        run(scenario())
    assert len(caplog.messages) == 2
    assert f"{URL} has not answered since" in caplog.messages[0]
    assert "Waiting up to 60 s" in caplog.messages[0]
    assert "answers again" in caplog.messages[1]


def test_pauses_between_probes_grow_to_their_limit() -> None:
    async def scenario() -> None:
        watch, clock = (
            await down(replace(AT_ONCE, pause_s=0.02, max_pause_s=0.08)),
            asyncio.get_running_loop(),
        )
        moments = [clock.time()]
        for _ in range(5):
            assert await watch.wait()
            moments.append(clock.time())
            watch.failed("no connection", has_status=False)
        pauses = [after - before for before, after in itertools.pairwise(moments)]
        for pause_s, least_s in zip(pauses, (0.02, 0.04, 0.08, 0.08, 0.08), strict=True):
            assert pause_s >= least_s * 0.9
        watch.close()

    run(scenario())


@pytest.mark.slow
def test_when_patience_is_over_all_fail_at_once_but_a_late_return_is_seen() -> None:
    async def scenario() -> None:
        watch = await down(replace(AT_ONCE, patience_s=0.1, pause_s=1.5, max_pause_s=1.5))
        assert await asyncio.gather(*(watch.wait() for _ in range(20))) == [False] * 20
        assert not await watch.wait()
        assert "no answer since" in watch.describe()
        while not await watch.wait():
            await asyncio.sleep(0.01)
        assert watch.is_probe()
        watch.answered()
        assert not watch.is_down
        assert await watch.wait()

    run(scenario())


def test_a_cancelled_probe_hands_over_and_cancelled_waiters_are_passed_by() -> None:
    async def scenario() -> None:
        watch = await down()

        async def hang() -> None:
            assert await watch.wait()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                watch.abandoned()
                raise

        tasks = [asyncio.create_task(hang()) for _ in range(3)]
        while not watch._probe:
            await asyncio.sleep(0.005)
        assert watch._probe is tasks[0]
        tasks[1].cancel()
        tasks[0].cancel()
        while watch._probe is not tasks[2]:
            await asyncio.sleep(0.005)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (
            await watch.wait()
        )  # nobody else is there: the place as probe was kept for the next who comes
        watch.close()

    run(scenario())
