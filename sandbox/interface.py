"""The interface of every sandbox backend (the cases in `conformance.py` define its meaning).

A program's failure is a result; a failure of the sandbox itself raises `SandboxUnavailable`, which is infra, never a verdict.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from pydantic import Field

from schemas.base import Frozen
from schemas.run import Limits


class Completed(Frozen):
    """How one command in the sandbox ended."""

    exit_code: int | None
    """None where a signal ended it. Read as a shell reads it: 128+N is signal N, 127 a command that does not exist."""
    signal: int | None = None
    timed_out: bool = False
    """Its own CPU or wall limit ended it."""
    out_of_memory: bool = False
    stdout: bytes = b""
    stderr: bytes = b""
    """The first and the last `output_kb` of the output; a line between them says how much was left out."""
    report: bytes = b""
    """Bytes written to the descriptor that the variable PARLEY_REPORT_FD names (bounded): for trusted harness code."""
    cpu_s: float | None = Field(default=None, ge=0)
    """Of the command and its waited-for children; None where the backend cannot tell."""
    wall_s: float = Field(default=0.0, ge=0)


class Session(Protocol):
    """One isolated place; several commands may run in it, one after another, each with a process tree of its own."""

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
            argv: an item `{python}` stands for the sandbox's Python interpreter, `{harness}/NAME` for a trusted script of
                `sandbox/harness` as the sandbox sees it.
            files: written into the working directory first; names are relative, without `..`.
            stdin: the command's input, then end of file.
            limits: for this command; the session's own otherwise. Time, processes, files and output are per command.

        Raises:
            ValueError: a file's name leaves the working directory.
            SandboxUnavailable: the sandbox could not run it (missing tool, no namespace, disk full, killed from outside).
        """
        ...


class Sandbox(Protocol):
    """A backend. Instances are cheap to make and safe to use from several threads."""

    name: str
    isolated: bool
    """False only for the backend that must be asked for by `--sandbox none`."""
    has_host_packages: bool
    """Whether programs see the packages that are installed beside Parley, rather than those of an image. No, if unsaid."""

    def check(self) -> None:
        """Raise `SandboxUnavailable`, with what to install or to type, unless a trivial program runs."""
        ...

    def fingerprint(self) -> str:
        """Everything besides program and limits that can change a verdict: backend, Python, installed versions, image digest."""
        ...

    def session(
        self, limits: Limits, *, keep_files: bool = False
    ) -> AbstractContextManager[Session]:
        """Open a place to run commands in; waits for a free slot of the host.

        Args:
            keep_files: the working directory lasts from one command to the next; otherwise each starts with an empty one.
        """
        ...


@runtime_checkable
class ImageSandbox(Protocol):
    """A sandbox that runs programs in images."""

    def of_image(self, image: str) -> Sandbox:
        """The same sandbox in another image, pinned by digest."""
        ...
