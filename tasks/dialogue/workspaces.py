"""What a seat may ask for a place to work in."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sandbox.workspace.interface import COMMAND_LIMITS, CommandResult
from schemas.run import Limits


class SeatWorkspace(Protocol):
    """A workspace that is open for one dialogue; see `sandbox.workspace.workspace.Workspace`."""

    async def shell(self, command: str, limits: Limits | None = None) -> CommandResult:
        """Run a command line in the folder and with the exported variables that the last one left, and keep the state.

        Raises:
            SandboxUnavailable: it could not be run; the engine makes the episode infra.
        """
        ...

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        """Run a command and keep the state. Raises SandboxUnavailable."""
        ...

    async def read(self, path: str) -> bytes:
        """A file of the tree. Raises ValueError where the path leads out of the tree, OSError where there is no such file."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write a file of the tree; the next snapshot keeps it. Raises as `read`."""
        ...

    async def snapshot(self) -> str:
        """Keep the state; its digest. Raises TreeOverrun where it holds more than its bounds."""
        ...


class Workspaces(Protocol):
    """Opens workspaces for the dialogues of a run."""

    def open(
        self,
        tree: str | None = None,
        *,
        image: str | None = None,
        place: str = "/testbed",
        limits: Limits = COMMAND_LIMITS,
        with_state: bool = True,
        environment: str = "",
    ) -> AbstractAsyncContextManager[SeatWorkspace]:
        """A workspace in the state of a digest, in the run's sandbox.

        To resume a dialogue is to open the tree of its last journaled step. Grading opens a workspace of its own, without
        state.

        Args:
            tree: of a snapshot or a folder; None for what the image has at `place`.
            image: Docker image, pinned by digest, that its commands run in; the run's sandbox as it is otherwise.
            place: where its commands find the tree.
            with_state: false leaves out what a snapshot holds beside the tree.
            environment: digest of the packages that its commands run with, or the image that has them (`in_image`); empty for
                Parley's own.

        Raises:
            SandboxUnavailable: the run's sandbox has no workspaces.
            CorruptRows: the store does not hold the digest.
        """
        ...
