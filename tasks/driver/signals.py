"""SIGINT and SIGTERM end a command cleanly and soon, wherever in its work they find it.

Both raise an exception in the main thread, which unwinds the stack: clusters and servers are ended on the way. Such an exception
can be lost: Python drops what is raised in a finalizer or a callback, an event loop logs what one of its callbacks raises, and
while a flow runs the handler of SIGTERM is Prefect's. So a thread reads the kernel's own note of each signal, too (a wakeup
descriptor): `heed_signals` asks it between two steps and while the driver waits, and what has not ended in time is ended as it
stands, as safely as SIGKILL would: children follow their parent by themselves.

A thread may have its process end likewise, with an exception of its own (`stop`): it sends SIGUSR1.
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
from contextvars import ContextVar
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED, TERMINATED, STOPPED = 130, 143, 0
_STOP = signal.SIGUSR1
END_LIMIT_S = 8.0
"""From the first signal to the end; `docker stop` sends SIGKILL after 10 s."""
_LOOK_EVERY_S = 0.2
"""The thread that bounds the end looks so often whether another one has read the note of a signal: it is not woken then."""
UNWOUND_LIMIT_S = 1.5
"""From the end of a flow's own work, after a signal, to the end of its process: time for Prefect to say so to its server."""


class _Watch:
    """Notes the signals of this process and bounds the time that it takes to end after the first."""

    def __init__(self, heeded: tuple[signal.Signals, ...], last_words: Callable[[], None]) -> None:
        self._heeded, self._last_words = heeded, last_words
        self._came: list[int] = []
        self.stop: Callable[[], BaseException] | None = None
        """Makes what a stopped process raises; see `stop`."""
        self._deadline = math.inf
        self._lock = (
            threading.RLock()
        )  # the handler of `stop` asks in the midst of whatever the main thread does
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
        """Leave so many seconds from now, where more are left."""
        self._deadline = min(self._deadline, time.monotonic() + limit_s)
        os.write(self._writing, b"\0")  # wakes the thread

    def status(self) -> int | None:
        """The exit status of the signal that came; None as long as none has."""
        self._note(0)
        with self._lock:  # the other thread may have read the note, and not yet taken it in
            came = set(self._came)
        if signal.SIGTERM in came:
            return TERMINATED
        if signal.SIGINT in came:
            return INTERRUPTED
        return STOPPED if came else None

    def ending(self) -> BaseException | None:
        """The exception that ends the process; None as long as no signal came."""
        status = self.status()
        if status == STOPPED and self.stop is not None:
            return self.stop()
        return (
            None
            if status is None
            else _ending(signal.SIGINT if status == INTERRUPTED else signal.SIGTERM)
        )

    def end(self) -> NoReturn:
        """Say the last words and end at once: all that an interpreter does at its end may take seconds, and nothing needs it."""
        words, self._last_words = self._last_words, lambda: None
        try:
            with suppress(Exception):  # whoever was to read them may have ended, too
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
        """Take in what came, after waiting for it at most so long; whether more can come."""
        if not select.select([self._reading], [], [], limit_s)[0]:
            return True
        with self._lock:
            try:
                said = os.read(self._reading, 4096)
            except BlockingIOError:  # the other thread was first
                return True
            self._came += [number for number in said if number in self._heeded]
            return bool(said)


_watches: list[_Watch] = []


@contextmanager
def signals_end_cleanly(last_words: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, then end the process (exit status 143 or 130) unless its work is done.

    A second Ctrl-C ends it at once; a second SIGTERM changes nothing: `timeout` sends two.

    Does nothing outside the main thread, where Python allows no handlers. An ignored SIGINT (`nohup`, `&`) stays ignored.

    Args:
        last_words: called once where a signal ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: set[int] = set()

    def end(number: int, frame: FrameType | None) -> None:
        if number not in heard:
            heard.add(number)
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
    """Bound the time from SIGTERM, or `stop`, to the end of a process whose flow another program runs, such as Prefect's runner.

    The bound outlasts the block: what Prefect, Dask and the interpreter do at their end takes seconds, and nothing needs it.
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
    """End the process as SIGTERM would, but by this exception and with status 0. Called in a thread, within `terminated_in_time`.

    Args:
        error: makes the exception, which the main thread raises now, and each thread that heeds signals.
    """
    for watch in _watches:
        watch.stop = error
    if (main := threading.main_thread().ident) is not None and _watches:
        signal.pthread_kill(main, _STOP)


def stop_asked() -> bool:
    """Whether a signal that ends this process has come."""
    return any(watch.status() is not None for watch in _watches)


class Halted(BaseException):
    """Work in a thread that whoever waits for it wants no more."""


_halt: ContextVar[threading.Event | None] = ContextVar("parley_halt", default=None)


@contextmanager
def halted_by(event: threading.Event) -> Iterator[None]:
    """Within the block, and in threads that copy its context, `heed_signals` heeds this event, too."""
    token = _halt.set(event)
    try:
        yield
    finally:
        _halt.reset(token)


def heed_signals() -> None:
    """End here if a signal asked for it before and the work went on all the same. For every thread of a command.

    Raises:
        SystemExit: SIGTERM came (status 143).
        KeyboardInterrupt: SIGINT came.
        BaseException: that of `stop`.
        Halted: see `halted_by`.
    """
    for watch in _watches:
        if (error := watch.ending()) is not None:
            raise error
    halt = _halt.get()
    if halt is not None and halt.is_set():
        raise Halted


def _ending(number: int) -> BaseException:
    return SystemExit(TERMINATED) if number == signal.SIGTERM else KeyboardInterrupt()
