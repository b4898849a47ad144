"""What runs that go side by side share of an endpoint: one limit, the least that one of them
grants, and one outage.
"""

import asyncio
from typing import Any

from tasks.language.access import CallPolicy, OutagePolicy
from tasks.language.endpoints.endpoint_pool import EndpointPool, join_pool

URL = "http://127.0.0.1:9/v1"
AT_ONCE = OutagePolicy(faults=2, silence_s=0.0)


def join(concurrency: int, **other: Any) -> EndpointPool:
    limits = {name: other.pop(name) for name in ("connect_s", "outage") if name in other}
    policy = CallPolicy(concurrency, **{"connect_s": 1.0, "outage": AT_ONCE} | limits)
    return join_pool(**{"url": URL, "key": None} | other, policy=policy)


def test_two_runs_on_one_endpoint_keep_to_the_least_that_one_of_them_grants() -> None:
    async def scenario() -> None:
        first, second = join(8), join(3, connect_s=5.0)
        elsewhere, of_another_account = join(8, url="http://127.0.0.1:8/v1"), join(8, key="another")
        for _ in range(2):
            await first.limit.acquire()
        await second.limit.acquire()
        waiting = asyncio.create_task(first.limit.acquire())
        await asyncio.sleep(0.01)
        assert not waiting.done(), "a fourth request went to an endpoint that is granted three"
        assert (elsewhere.limit.limit, of_another_account.limit.limit) == (8, 8)
        await second.leave()
        await asyncio.wait_for(waiting, 5)
        assert first.limit.limit == 8, "the run that granted less is over"
        for pool in (first, elsewhere, of_another_account):
            await pool.leave()

    asyncio.run(scenario())


def test_an_overload_that_one_run_meets_slows_the_other_and_outlasts_it() -> None:
    async def scenario() -> None:
        first, second = join(16), join(16, connect_s=5.0)
        first.limit.overloaded(await first.limit.acquire())
        await first.leave()
        assert second.limit.limit == 8
        await second.leave()
        third = join(16)
        assert third.limit.limit == 16
        await third.leave()

    asyncio.run(scenario())


def test_an_outage_that_one_run_meets_is_the_other_s_too_unless_it_waits_for_another_time() -> None:
    async def scenario() -> None:
        first, second = join(4), join(4, connect_s=5.0)
        patient = join(4, outage=OutagePolicy(faults=2, silence_s=0.0, patience_s=999.0))
        for _ in range(2):
            first.watch.failed("no connection", has_status=False)
        assert (second.watch.is_down, patient.watch.is_down) == (True, False)
        await first.leave()
        assert second.watch._timers, "the run that is left still looks whether the endpoint is back"
        for pool in (second, patient):
            await pool.leave()

    asyncio.run(scenario())
