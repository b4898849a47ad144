"""A coroutine beside the main thread, which does errands for it meanwhile."""

import asyncio
import threading

import pytest

from schemas.errors import ModelUnavailable
from tasks.build import OwnLoop


def test_errands_are_done_by_the_main_thread_and_their_errors_come_back() -> None:
    loop = OwnLoop()

    def fails() -> int:
        raise ModelUnavailable("no server")

    async def work() -> tuple[bool, bool]:
        with pytest.raises(ModelUnavailable):
            loop.in_main_thread(fails)
        here, there = threading.current_thread(), loop.in_main_thread(threading.current_thread)
        return here is threading.main_thread(), there is threading.main_thread()

    assert loop.run(work()) == (False, True)


def test_what_it_raises_is_raised_and_what_it_left_is_cancelled() -> None:
    left: list[asyncio.Task[None]] = []

    async def work() -> None:
        left.append(asyncio.create_task(asyncio.sleep(60)))
        raise ModelUnavailable("gone")

    with pytest.raises(ModelUnavailable, match="gone"):
        OwnLoop().run(work())
    assert left[0].cancelled()
