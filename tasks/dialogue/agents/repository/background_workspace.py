"""Workspace that opens in the background, since both it and the model take up to a second."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from sandbox.workspace.interface import CommandResult
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from tasks.dialogue.workspaces import SeatWorkspace


class OpeningWorkspace:
    """Workspace that waits until it is open. See `tasks.dialogue.workspaces.SeatWorkspace`.

    If opening fails, each use raises the error. An OSError becomes SandboxUnavailable, since a tool
    would take it for an error of its file.
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
async def open_in_background(
    manager: AbstractAsyncContextManager[SeatWorkspace],
) -> AsyncIterator[SeatWorkspace]:
    """Enter the context manager in the background, and exit it after the body.

    Errors of a workspace that was never used are ignored.
    """
    async with AsyncExitStack() as stack:
        opened = asyncio.create_task(stack.enter_async_context(manager))
        try:
            yield OpeningWorkspace(opened)
        finally:
            opened.cancel()
            await asyncio.gather(opened, return_exceptions=True)
