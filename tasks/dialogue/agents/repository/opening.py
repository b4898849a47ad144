"""A workspace that opens while the model is asked: both take up to a second."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from sandbox.workspace.interface import CommandResult
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from tasks.dialogue.workspaces import SeatWorkspace


class OpeningWorkspace:
    """See `tasks.dialogue.workspaces.SeatWorkspace`. A use before it is open waits.

    An error that kept it from opening is raised to each of its users: an OSError as SandboxUnavailable, since a tool would
    take it for an error of the file that it asks for.
    """

    def __init__(self, opened: asyncio.Task[SeatWorkspace]) -> None:
        self._opened = opened

    async def shell(self, command: str, limits: Limits | None = None) -> CommandResult:
        return await (await self._workspace()).shell(command, limits)

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        return await (await self._workspace()).run(argv, limits, stdin=stdin)

    async def read(self, path: str) -> bytes:
        return await (await self._workspace()).read(path)

    async def write(self, path: str, data: bytes) -> None:
        await (await self._workspace()).write(path, data)

    async def snapshot(self) -> str:
        return await (await self._workspace()).snapshot()

    async def _workspace(self) -> SeatWorkspace:
        try:
            return await asyncio.shield(self._opened)
        except OSError as fault:
            raise SandboxUnavailable(f"the workspace was not opened: {fault}") from fault


@asynccontextmanager
async def opened_meanwhile(
    manager: AbstractAsyncContextManager[SeatWorkspace],
) -> AsyncIterator[SeatWorkspace]:
    """Enters the manager beside the body, and leaves it behind the body. A fault in a workspace that nobody used is nobody's."""
    async with AsyncExitStack() as stack:
        opened = asyncio.create_task(stack.enter_async_context(manager))
        try:
            yield OpeningWorkspace(opened)
        finally:
            opened.cancel()
            await asyncio.gather(opened, return_exceptions=True)
