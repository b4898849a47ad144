"""Sandbox `none`: a plain child process in its own folder. A user must select it by name.

The sandbox limits time, output and memory, and hides the parent's environment variables. It does
not isolate: a program has its user's rights on files, can use the network, can affect other
processes, and can leave processes running.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sandbox.host.file_archive import checked_name
from sandbox.host.python_environment import (
    HARNESS,
    clean_environment,
    environment_digest,
    interpreter,
    placed,
)
from sandbox.host.resource_limits import prlimit_argv
from sandbox.host.slots import hold_slot, slot_count
from sandbox.host.supervision import Channels, Command, completed, supervise
from sandbox.interface import Completed, python_failure
from schemas.errors import SandboxUnavailable
from schemas.run import Limits


class UnisolatedSandbox:
    """Sandbox that runs programs as the caller's own user. Parley never chooses it by itself.

    See `sandbox.interface.Sandbox`.

    Args:
        packages: folders of packages to use instead of those installed beside Parley.
        slots: maximum number of programs running at the same time on this host; by default one per
            CPU.
        slot_directory: folder of the slots' lock files.
    """

    name = "none"
    isolated = False
    has_host_packages = True
    takes_packages = True

    def __init__(
        self,
        *,
        packages: tuple[str, ...] = (),
        slots: int | None = None,
        slot_directory: Path | None = None,
    ) -> None:
        self.packages = packages
        self._slots = slots or slot_count()
        self._slot_directory = slot_directory

    def check(self) -> None:
        """Run a trivial program.

        Raises:
            SandboxUnavailable: the program fails.
        """
        if done := python_failure(self):
            raise SandboxUnavailable(
                f"{interpreter()} does not run: {done.stderr.decode(errors='replace')[-300:]}"
            )

    def fingerprint(self) -> str:
        return f"none; {environment_digest(self.packages)}"

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator["UnisolatedSession"]:
        with hold_slot(self._slots, self._slot_directory, limits.memory_mb):
            folder = tempfile.mkdtemp(prefix="parley-none-")
            try:
                yield UnisolatedSession(Path(folder), limits, keep_files)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


class UnisolatedSession:
    """Session of the sandbox `none`. See `sandbox.interface.Session`."""

    def __init__(self, folder: Path, limits: Limits, keep_files: bool) -> None:
        self._folder, self._limits, self._keep_files = folder, limits, keep_files

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> Completed:
        limits = limits or self._limits
        for name in files or {}:
            checked_name(name)
        try:
            work = self._prepared(files or {})
            with ExitStack() as stack:
                channels = Channels(stack)
                command = Command(
                    argv=(
                        *prlimit_argv(limits, count_processes=False),
                        *(placed(item, str(HARNESS)) for item in argv),
                    ),
                    environment=clean_environment(
                        str(work.parent / "tmp"), channels.report_end.fileno()
                    ),
                    limits=limits,
                    stdin=stdin,
                    cwd=str(work),
                    new_session=True,
                )
                ending = supervise(command, channels, stack, _kill_group)
        except OSError as error:
            raise SandboxUnavailable(
                f"sandbox none: {error}; the host's disk or memory may be full"
            ) from error
        return completed(ending, limits, cpu_s=ending.cpu_s)

    def _prepared(self, files: Mapping[str, bytes]) -> Path:
        work, scratch = self._folder / "work", self._folder / "tmp"
        if not self._keep_files:
            shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in (work, scratch):
            folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes(content)
        return work


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
