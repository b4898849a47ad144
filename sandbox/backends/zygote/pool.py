"""Idle zygotes of this process, which later sessions reuse. They end with the process."""

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.backends.zygote.process import Zygote, ZygoteGone
from sandbox.host.python_environment import interpreter, python_roots
from sandbox.host.slots import sandbox_fault
from schemas.errors import SandboxUnavailable


@dataclass(frozen=True)
class Kind:
    """Properties that interchangeable zygotes share."""

    bwrap: str
    uid: int
    preload: tuple[str, ...]
    packages: tuple[str, ...]
    """Folders that `preload` is loaded from; Parley's own if empty."""
    python: tuple[str, ...]
    """Path of the interpreter, and the folders that it needs."""
    home: str
    """Folder of Parley's own data, which is masked."""

    def start(self) -> Zygote:
        """Start a zygote of this kind."""
        return Zygote(self.bwrap, self.uid, self.preload, self.packages)


def kind(bwrap: str, uid: int, preload: tuple[str, ...], packages: tuple[str, ...] = ()) -> Kind:
    """Return the kind of a zygote with these arguments that would be started now."""
    home = os.path.abspath(os.environ.get("PARLEY_HOME") or ".parley")
    return Kind(bwrap, uid, preload, packages, (interpreter(), *python_roots()), home)


_lock = threading.Lock()
_idle: list[tuple[Kind, Zygote]] = []
"""Idle zygotes, longest unused first."""


class Lease:
    """Zygote that one session uses. If a run has changed it, a fresh zygote replaces it."""

    def __init__(self, zygote_kind: Kind) -> None:
        self._kind = zygote_kind
        self._zygote: Zygote | None = None
        self._pinned = False

    def keep_directory(self, size_bytes: int) -> None:
        """Let all runs share a working directory.

        From now on the zygote is not replaced, since it holds the session's files.

        Raises:
            SandboxUnavailable: no zygote runs, or it cannot make the directory.
        """
        self._usable().keep_directory(size_bytes)
        self._pinned = True

    def attempt(self, use: Callable[[Zygote], int]) -> tuple[Zygote, int]:
        """Call `use` with a usable zygote, and return the zygote and the result.

        If the zygote died after its last run, a fresh one is used.

        Raises:
            SandboxUnavailable: no zygote answers.
        """
        zygote = self._zygote if self._pinned and self._zygote is not None else self._usable()
        try:
            return zygote, use(zygote)
        except ZygoteGone as error:
            self.discard()
            if self._pinned:
                raise SandboxUnavailable(
                    f"zygote: the prepared Python ended between two commands of a session: {error}"
                ) from error
        self._zygote = zygote = self._kind.start()
        try:
            return zygote, use(zygote)
        except ZygoteGone as error:
            self.discard()
            raise sandbox_fault(
                f"zygote: a new zygote does not run programs: {error}", str(error)
            ) from error

    def _usable(self) -> Zygote:
        while self._zygote is None or not self._zygote.is_pristine():
            self.discard()
            self._zygote = _take_idle(self._kind) or self._kind.start()
        return self._zygote

    def discard(self) -> None:
        """End the zygote."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()

    def give_back(self, most_idle: int) -> None:
        """Keep the zygote for the next session, or end it if a run has changed it.

        If a process has more than `most_idle` idle zygotes, the oldest ones end.
        """
        if self._pinned and self._zygote is not None:
            try:
                self._zygote.drop_directory()
            except SandboxUnavailable:
                self.discard()
        if self._zygote is None or not self._zygote.is_pristine():
            self.discard()
            return
        zygote, self._zygote = self._zygote, None
        with _lock:
            _idle.append((self._kind, zygote))
            surplus = [_idle.pop(0)[1] for _ in range(len(_idle) - most_idle)]
        for old in surplus:
            old.close()


def _take_idle(zygote_kind: Kind) -> Zygote | None:
    with _lock:
        for place in range(len(_idle) - 1, -1, -1):
            if _idle[place][0] == zygote_kind:
                return _idle.pop(place)[1]
    return None


def close_idle() -> None:
    """End all zygotes that no session holds. This also happens when the process ends."""
    with _lock:
        zygotes = [zygote for _, zygote in _idle]
        _idle.clear()
    for zygote in zygotes:
        zygote.close()


def _forget() -> None:
    """Forget the zygotes in a forked child, because they belong to its parent."""
    global _lock
    _lock = threading.Lock()
    for _, zygote in _idle:
        zygote.disown()
    _idle.clear()


atexit.register(close_idle)
os.register_at_fork(after_in_child=_forget)
