"""Forks for several groups of tests on one answer.

The code runs once. Then each group of tests runs in a forked child, from the state that the code
left. This module is trusted, and runs in the candidate process. Its forks are closer copies than
Python's: no hook of `os.register_at_fork` is called, and no random state is reseeded. If the code
leaves something that a fork does not copy (a thread, a child, a timer), or that children would
share (an open file, memory), `why_alone` returns the reason, and the code runs again for each
group.
"""

from __future__ import annotations

import _ctypes
import _signal  # pyright: ignore[reportMissingImports]  (a built-in module: signal would import enum)
import builtins
import os
import time

from sealed_channel import TO_SUPERVISOR, fields, sealer, write_all

__builtins__ = dict(builtins.__dict__)  # The candidate can change the shared built-ins.

_this_process: Any = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType]  (None: this process)
_FORK, _PRCTL = (_ctypes.dlsym(_this_process, name) for name in ("fork", "prctl"))

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OF_PARENT = TO_SUPERVISOR + b", of the parent"
"""Direction label of a message that the parent signs with a child's key. The parent sends one such
message, which reports how the child ended.
"""
_PR_SET_CHILD_SUBREAPER = 36
_LEFTOVER_GRACE_S = 1.0
_TIMERS = (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF)
_SET_MASK = _signal.SIG_SETMASK


def parent(questions: int) -> tuple[Callable[[], str], Callable[..., bytes]]:
    """Prepare the forks, before the candidate's code runs.

    Args:
        questions: descriptor that the supervisor reads.

    Returns:
        Two functions. The first returns the reason why the tests cannot run in children, or an
        empty text. The second forks the children.
    """
    call, fork = _ctypes.call_function, _FORK
    if call(_PRCTL, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")
    return _state_check(), _forker(questions, lambda: call(fork, ()))


def _state_check() -> Callable[[], str]:
    """Make the function `why_alone`, which returns the reason why tests cannot run in children.

    The reason is an empty text if they can. The functions that `why_alone` calls are bound now,
    since the candidate can replace functions of modules.
    """
    listdir, fstat, open_, read, close = os.listdir, os.fstat, os.open, os.read, os.close
    waitid, any_child, look, timer = (
        os.waitid,
        os.P_ALL,
        os.WEXITED | os.WNOHANG | os.WNOWAIT,
        _signal.getitimer,
    )

    def descriptors() -> list[tuple[str, int, int]]:
        entries: list[tuple[str, int, int]] = []
        for name in listdir("/proc/self/fd"):
            try:
                state = fstat(int(name))
            except OSError:  # The descriptor with which the folder is listed has been closed.
                continue
            entries.append((name, state.st_dev, state.st_ino))
        return sorted(entries)

    def has_children() -> bool:
        try:
            waitid(any_child, 0, look)
        except ChildProcessError:
            return False
        return True

    def shares_memory() -> bool:
        maps, text = open_("/proc/self/maps", 0), b""
        while piece := read(maps, 1 << 20):
            text += piece
        close(maps)
        return b" rw-s " in text

    def why_alone() -> str:
        if len(listdir("/proc/self/task")) > 1:
            return "the code left a thread"
        if has_children():
            return "the code left a process"
        if descriptors() != at_first:
            return "the code left a file open"
        if any(timer(kind) != (0.0, 0.0) for kind in _TIMERS):
            return "the code left a timer"
        if shares_memory():
            return "the code left shared memory"
        return ""

    at_first = descriptors()
    return why_alone


def _forker(questions: int, fork: Callable[[], int]) -> Callable[..., bytes]:
    """Make the function `fork_each`.

    The functions that it calls are bound now, as in `_state_check`.
    """
    wait4, waitpid, leave, exit_code, no_wait = (
        os.wait4,
        os.waitpid,
        os._exit,
        os.waitstatus_to_exitcode,
        os.WNOHANG,
    )
    mask, every = _signal.pthread_sigmask, _signal.valid_signals()
    used, clock, sleep = time.process_time, time.monotonic, time.sleep

    def fork_each(hear: Callable[[], list[bytes]]) -> bytes:
        """Fork a child for each request of the supervisor, and return the child's key.

        The call returns in each child. For the last tests no child is forked, and it returns in
        this process. The key belongs to the channel between child and supervisor.
        """
        code_s = used()
        # Otherwise a child could send its parent a signal, for which the candidate may have a
        # handler.
        before = mask(_SET_MASK, every)
        while True:
            word, key = hear()
            if word not in (b"child", b"last"):
                leave(0)
            pid = fork() if word == b"child" else 0
            if pid == 0:
                mask(_SET_MASK, before)
                return key
            _, status, usage = wait4(pid, 0)
            ending = (exit_code(status), code_s, usage.ru_utime + usage.ru_stime, leaves_others())
            write_all(
                questions,
                sealer(key, OF_PARENT)(fields(*(repr(value).encode() for value in ending))),
            )

    def leaves_others() -> int:
        """Return 1 if a process that the child started outlives it, else 0.

        Processes that end by themselves get a moment to do so.
        """
        deadline = clock() + _LEFTOVER_GRACE_S
        while True:
            try:
                while waitpid(-1, no_wait)[0]:
                    continue
            except ChildProcessError:
                return 0
            if clock() > deadline:
                return 1
            sleep(0.005)

    return fork_each
