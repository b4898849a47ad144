"""Clean and timely end of a command after SIGINT or SIGTERM.

Both signals raise an exception in the main thread, which unwinds the stack and so ends clusters and
servers. Such an exception can be lost: Python drops exceptions of finalizers and callbacks, an
event loop logs those of its callbacks, and while a flow runs, SIGTERM has Prefect's handler. A
thread therefore also reads the kernel's record of each signal (a wakeup descriptor). `heed_signals`
checks it between steps and while the driver waits. After a time limit the process exits
immediately, which is as safe as SIGKILL: the child processes end when their parent ends.

A thread can end its process in the same way with another exception: `stop` sends SIGUSR1.
"""

import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED, TERMINATED, STOPPED = 130, 143, 0
_STOP = signal.SIGUSR1
END_LIMIT_S = 8.0
"""Seconds from the first signal to the end. `docker stop` sends SIGKILL after 10 s."""
_LOOK_EVERY_S = 0.2
"""Interval at which the watching thread checks whether another thread has read a signal.

Nothing wakes the watching thread in that case.
"""
UNWOUND_LIMIT_S = 1.5
"""Seconds from the end of a flow's own work after a signal to the end of the process.

Prefect needs them to inform its server.
"""


class _Watch:
    """Record of this process's signals, with a limit for the time from the first one to the end."""

    def __init__(self, heeded: tuple[signal.Signals, ...], last_words: Callable[[], None]) -> None:
        self._heeded, self._last_words = heeded, last_words
        self._came: list[int] = []
        self.stop: Callable[[], BaseException] | None = None
        """Makes the exception that ends the process after `stop`."""
        self._deadline = math.inf
        # The handler of `stop` takes this lock wherever it interrupts the main thread.
        self._lock = threading.RLock()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._earlier = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._thread = threading.Thread(
            target=self._bound_the_end, name="parley-signals", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._earlier)
        os.close(self._writing)
        self._thread.join()
        os.close(self._reading)

    def hasten(self, limit_s: float) -> None:
        """Shorten the remaining time to `limit_s` seconds."""
        self._deadline = min(self._deadline, time.monotonic() + limit_s)
        os.write(self._writing, b"\0")  # This wakes the thread.

    def status(self) -> int | None:
        """Return the exit status that belongs to the received signal; None without a signal."""
        self._note(0)
        with self._lock:  # The other thread may have read the signal and not yet recorded it.
            came = set(self._came)
        if signal.SIGTERM in came:
            return TERMINATED
        if signal.SIGINT in came:
            return INTERRUPTED
        return STOPPED if came else None

    def ending(self) -> BaseException | None:
        """Return the exception that ends the process; None if no signal was received."""
        status = self.status()
        if status == STOPPED and self.stop is not None:
            return self.stop()
        return (
            None
            if status is None
            else _ending(signal.SIGINT if status == INTERRUPTED else signal.SIGTERM)
        )

    def end(self) -> NoReturn:
        """Call `last_words` and end the process immediately.

        A regular exit of the interpreter may take seconds, and no work depends on it.
        """
        words, self._last_words = self._last_words, lambda: None
        try:
            with suppress(Exception):  # The reader of the words may have ended too.
                words()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
        finally:
            status = self.status()
            os._exit(TERMINATED if status is None else status)

    def _bound_the_end(self) -> None:
        while not self._came:
            if not self._note(_LOOK_EVERY_S):
                return
        self._deadline = min(self._deadline, time.monotonic() + END_LIMIT_S)
        while (
            self._came.count(signal.SIGINT) < 2
            and (left_s := self._deadline - time.monotonic()) > 0
        ):
            if not self._note(left_s):
                return
        self.end()

    def _note(self, limit_s: float) -> bool:
        """Record new signals, after waiting for them at most `limit_s` seconds.

        Return False if the pipe is closed, so that no more signals can be read.
        """
        if not select.select([self._reading], [], [], limit_s)[0]:
            return True
        with self._lock:
            try:
                numbers = os.read(self._reading, 4096)
            except BlockingIOError:  # The other thread has read it.
                return True
            self._came += [number for number in numbers if number in self._heeded]
            return bool(numbers)


_watches: list[_Watch] = []


@contextmanager
def signals_end_cleanly(last_words: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, then end the process.

    The exit status is 143 (SIGTERM) or 130 (Ctrl-C), or 0 if the work is complete. A second Ctrl-C
    ends the process immediately. A second SIGTERM has no effect, because `timeout` sends two.
    Outside the main thread this function does nothing, because Python allows no handlers there. An
    ignored SIGINT (`nohup`, `&`) stays ignored.

    Args:
        last_words: Called once before the process ends, if a signal ends it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled: set[int] = set()

    def end(number: int, frame: FrameType | None) -> None:
        if number not in handled:
            handled.add(number)
            raise _ending(number)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, end)
    watch = _Watch((signal.SIGTERM, signal.SIGINT), last_words)
    _watches.append(watch)
    try:
        yield
    except BaseException as ending:
        if watch.status() is not None and not (isinstance(ending, SystemExit) and ending.code == 0):
            watch.end()
        raise
    finally:
        _watches.remove(watch)
        watch.close()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminated_in_time() -> Iterator[None]:
    """Limit the time from SIGTERM or `stop` to the end of a process whose flow Prefect runs.

    The limit also applies after the block: the shutdown of Prefect, Dask and the interpreter takes
    seconds, and no work depends on it.
    """
    if _watches or threading.current_thread() is not threading.main_thread():
        yield
        return

    def raise_stop(number: int, frame: FrameType | None) -> None:
        if (error := watch.ending()) is not None:
            raise error

    before = signal.signal(_STOP, raise_stop)
    watch = _Watch((signal.SIGTERM, _STOP), lambda: None)
    _watches.append(watch)
    try:
        yield
    except BaseException:
        if watch.status() is None:
            _forget(watch, before)
        else:
            watch.hasten(UNWOUND_LIMIT_S)
        raise
    _forget(watch, before)


def _forget(watch: _Watch, before: Any) -> None:
    _watches.remove(watch)
    watch.close()
    signal.signal(_STOP, before)


def stop(error: Callable[[], BaseException]) -> None:
    """End the process as SIGTERM would, but with this exception and exit status 0.

    Call this in a thread, within `terminated_in_time`.

    Args:
        error: Makes the exception. The main thread and each thread that heeds signals raise it.
    """
    for watch in _watches:
        watch.stop = error
    if (main := threading.main_thread().ident) is not None and _watches:
        signal.pthread_kill(main, _STOP)


def stop_asked() -> bool:
    """Return True if a signal that ends this process was received."""
    return any(watch.status() is not None for watch in _watches)


class Halted(BaseException):
    """`HaltableThread.halt` was called, so the work in this thread ends."""


class HaltableThread(threading.Thread):
    """Daemon thread whose work another thread can end."""

    is_halted = False

    def halt(self) -> None:
        """Let `heed_signals` raise Halted in this thread."""
        self.is_halted = True


def heed_signals() -> None:
    """Raise the exception of a signal that was received earlier and whose exception was lost.

    Raises:
        SystemExit: SIGTERM was received (status 143).
        KeyboardInterrupt: SIGINT was received.
        BaseException: `stop` was called with a factory of this exception.
        Halted: See `HaltableThread`.
    """
    for watch in _watches:
        if (error := watch.ending()) is not None:
            raise error
    thread = threading.current_thread()
    if isinstance(thread, HaltableThread) and thread.is_halted:
        raise Halted


def _ending(number: int) -> BaseException:
    return SystemExit(TERMINATED) if number == signal.SIGTERM else KeyboardInterrupt()


@contextmanager
def repeating(look: Callable[[], bool], every_s: float, name: str) -> Iterator[None]:
    """Call `look` every `every_s` seconds in a thread, until it returns False or the block ends.

    The end of the block waits for a call in progress.
    """
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(every_s):
            if not look():
                return

    thread = threading.Thread(target=go_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
