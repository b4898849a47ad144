"""A workspace that opens while the model is asked: who uses it waits, hears why it did not open,
and leaves nothing open.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from sandbox.workspace.interface import CommandResult
from schemas.errors import CorruptRows, ParleyError, SandboxUnavailable
from schemas.run import Limits
from tasks.dialogue.agents.repository.conversation import open_in_background
from tasks.dialogue.tools import DialogueWorkspace

SAID: list[str] = []


class Notes:
    """A workspace that knows one file."""

    async def read(self, path: str) -> bytes:
        SAID.append(f"read {path}")
        return b"text"

    async def write(self, path: str, data: bytes) -> None:
        raise NotImplementedError

    async def snapshot(self) -> str:
        return "tree"

    async def shell(self, command: str, limits: Limits | None = None) -> CommandResult:
        raise NotImplementedError

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        raise NotImplementedError


@asynccontextmanager
async def opening(
    until: asyncio.Event, fault: Exception | None = None
) -> AsyncIterator[DialogueWorkspace]:
    SAID.append("opening")
    try:
        await until.wait()
        if fault is not None:
            raise fault
        SAID.append("open")
        yield Notes()
    finally:
        SAID.append("closed")


def said_in(play: Callable[[asyncio.Event], Awaitable[None]]) -> list[str]:
    SAID.clear()

    async def bounded() -> None:
        await asyncio.wait_for(play(asyncio.Event()), timeout=20)

    asyncio.run(bounded())
    return list(SAID)


def test_the_model_is_asked_meanwhile_and_a_tool_waits():
    async def play(until: asyncio.Event) -> None:
        async with open_in_background(opening(until)) as workspace:
            reading = asyncio.create_task(workspace.read("a"))
            await asyncio.sleep(0.01)
            SAID.append("asked")
            until.set()
            assert (await reading, await workspace.snapshot()) == (b"text", "tree")

    assert said_in(play) == ["opening", "asked", "open", "read a", "closed"]


@pytest.mark.parametrize(
    ("fault", "heard"),
    [
        (OSError(28, "No space left on device"), SandboxUnavailable),
        (CorruptRows("no such tree"), CorruptRows),
        (SandboxUnavailable("no shell"), SandboxUnavailable),
    ],
)
def test_each_user_hears_why_it_did_not_open(fault: Exception, heard: type[ParleyError]):
    async def play(until: asyncio.Event) -> None:
        until.set()
        async with open_in_background(opening(until, fault)) as workspace:
            for _ in range(2):
                with pytest.raises(heard, match=str(fault.args[-1])):
                    await workspace.read("a")

    assert said_in(play) == ["opening", "closed"]


def test_who_is_cancelled_while_it_opens_leaves_nothing_open():
    async def play(until: asyncio.Event) -> None:
        async def dialogue() -> None:
            async with open_in_background(opening(until)) as workspace:
                await workspace.read("a")

        begun = asyncio.create_task(dialogue())
        await asyncio.sleep(0.01)
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun

    assert said_in(play) == ["opening", "closed"]


def test_a_dialogue_that_ends_before_it_is_open_does_not_wait_for_it():
    async def play(until: asyncio.Event) -> None:
        async with open_in_background(opening(until)):
            await asyncio.sleep(0.01)

    assert said_in(play) == ["opening", "closed"]
