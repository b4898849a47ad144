"""Interface of every sandbox backend. The cases in `conformance.py` define its meaning.

A program's failure is a result. A failure of the sandbox itself raises `SandboxUnavailable`, which
counts as infrastructure and is never a verdict.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from pydantic import Field

from schemas.base import Frozen
from schemas.run import Limits


class Completed(Frozen):
    """Result of one command in the sandbox."""

    exit_code: int | None
    """Exit code; None if a signal ended the command. As in a shell, 128+N can mean that signal N
    ended a program, and 127 means that the command does not exist.
    """
    signal: int | None = None
    timed_out: bool = False
    """True if the command's own CPU or wall-clock limit ended it."""
    out_of_memory: bool = False
    stdout: bytes = b""
    stderr: bytes = b""
    """First and last `output_kb` KiB of the error output. If bytes were omitted, a line between the
    two parts states how many. `stdout` is shortened likewise.
    """
    report: bytes = b""
    """Bytes that trusted harness code wrote to the descriptor in the variable PARLEY_REPORT_FD
    (bounded)."""
    cpu_s: float | None = Field(default=None, ge=0)
    """CPU seconds of the command and its waited-for children; None if the backend cannot measure
    them."""
    wall_s: float = Field(default=0.0, ge=0)


class Session(Protocol):
    """One isolated environment, in which commands run one after another.

    Each command has its own process tree.
    """

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> Completed:
        """Run `argv` to its end or its limit, and end its whole process tree.

        Args:
            argv: command. An item `{python}` stands for the sandbox's Python interpreter,
                `{harness}/NAME` for a trusted script of `sandbox/harness` as the sandbox sees it.
            files: files to write into the working directory first. Names are relative, without
                `..`.
            stdin: input of the command, followed by end of file.
            limits: limits of this command; by default the session's. Time, processes, files and
                output are bounded per command.

        Raises:
            ValueError: the name of a file leaves the working directory.
            SandboxUnavailable: the sandbox could not run the command (missing tool, no namespace,
                disk full, killed by neither Parley nor the command).
        """
        ...


class Sandbox(Protocol):
    """Backend that isolates programs.

    Instances are cheap to create, and several threads may use one.
    """

    name: str
    isolated: bool
    """False only for the backend `none`, which a user must select by `--sandbox none`."""
    has_host_packages: bool
    """True if programs see the packages installed beside Parley; False if they see those of an
    image, or if the attribute is missing."""

    def check(self) -> None:
        """Check that a trivial program runs.

        Raises:
            SandboxUnavailable: the program does not run. The message states what to install or to
                type.
        """
        ...

    def fingerprint(self) -> str:
        """Return a text about everything that can change a verdict, besides program and limits.

        This is the backend, Python, the installed versions, and the digest of an image.
        """
        ...

    def session(
        self, limits: Limits, *, keep_files: bool = False
    ) -> AbstractContextManager[Session]:
        """Open a session, in which commands run. The call waits for a free slot of the host.

        Args:
            limits: default limits of the session's commands.
            keep_files: if True, the session's commands share one working directory; otherwise each
                command starts with an empty one.
        """
        ...


def python_failure(sandbox: Sandbox) -> Completed | None:
    """Run a trivial Python program that reads the harness. Return its result if it failed."""
    program = "import sys; open(sys.argv[1]); print(6 * 7)"
    with sandbox.session(Limits()) as session:
        done = session.run(("{python}", "-c", program, "{harness}/run_function_tests.py"))
    return None if done.exit_code == 0 and done.stdout.strip() == b"42" else done


@runtime_checkable
class ImageSandbox(Protocol):
    """Sandbox that runs programs in images."""

    def with_image(self, image: str) -> Sandbox:
        """Return a copy of this sandbox that uses another image, which must be pinned by digest."""
        ...
