"""Interface of the workspaces that a dialogue's participant may use."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sandbox.workspace.interface import COMMAND_LIMITS, CommandResult
from schemas.run import Limits


class SeatWorkspace(Protocol):
    """Workspace that is open for one dialogue. See `sandbox.workspace.workspace.Workspace`."""

    async def shell(self, command: str, limits: Limits | None = None) -> CommandResult:
        """Run a command line and store the state.

        Working directory and exported variables persist from the previous command line.

        Raises:
            SandboxUnavailable: The command line could not run. The engine ends the episode as
                infra.
        """
        ...

    async def run(
        self, argv: tuple[str, ...], limits: Limits | None = None, *, stdin: bytes = b""
    ) -> CommandResult:
        """Run a command and store the state. Raises SandboxUnavailable."""
        ...

    async def read(self, path: str) -> bytes:
        """Return the contents of a file of the tree.

        Raises:
            ValueError: The path leads out of the tree.
            OSError: The file does not exist or cannot be read.
        """
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write a file of the tree. The next snapshot contains it. Raises the errors of `read`."""
        ...

    async def snapshot(self) -> str:
        """Store the state and return its digest. Raises TreeOverrun if it exceeds its limits."""
        ...


class Workspaces(Protocol):
    """Interface that opens workspaces for the dialogues of a run."""

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
        """Open a workspace in the state of a digest, in the run's sandbox.

        A resumed dialogue opens the tree of its last journaled step. Grading opens a separate
        workspace without state.

        Args:
            tree: Digest of a snapshot or a folder. None for the files of the image at `place`.
            image: Docker image of its commands, pinned by digest. None for the run's sandbox.
            place: Path of the tree for its commands.
            limits: Limits of a command.
            with_state: If False, state other than the tree is left out.
            environment: Packages that commands see: digest of a built environment, or name from
                `in_image`. Empty for the packages of Parley's own environment.

        Raises:
            SandboxUnavailable: The run's sandbox has no workspaces.
            CorruptRows: The store does not contain the digest.
        """
        ...
