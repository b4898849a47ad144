"""Lets SIGINT and SIGTERM end a command cleanly, at any point of its work.

Both raise an exception in the main thread, which unwinds the stack: clusters and servers are ended on the way. Such an exception
can be lost: Python drops what is raised in a finalizer or a callback, an event loop logs what one of its callbacks raises, and
while a flow runs the handler of SIGTERM is Prefect's. So the kernel's own note of each signal is kept, too (a wakeup descriptor),
and `heed_signals` reads it between two steps of the work.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143
_notes: list[int] = []
"""Reading end of the pipe into which Python writes the number of each signal that has a handler."""


@contextmanager
def signals_end_cleanly(last_words: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let SIGTERM unwind the stack (exit status 143) as Ctrl-C does (KeyboardInterrupt); a second Ctrl-C ends at once, as safely
    as SIGKILL would: children follow their parent by themselves.

    Does nothing outside the main thread, where Python allows no handlers. An ignored SIGINT (`nohup`, `&`) stays ignored.

    Args:
        last_words: called before the second Ctrl-C ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: set[int] = set()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number in came:
            last_words()
            os._exit(INTERRUPTED)
        came.add(number)
        raise KeyboardInterrupt

    def terminate(number: int, frame: FrameType | None) -> None:
        came.add(number)
        _terminate()

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, terminate)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        with _noting():
            yield
    finally:
        for number in before.keys() - came:  # one that came may come again before the interpreter has ended
            signal.signal(number, before[number])


def _terminate() -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(TERMINATED)


@contextmanager
def _noting() -> Iterator[None]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    earlier = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _notes.append(reading)
    try:
        yield
    finally:
        _notes.pop()
        signal.set_wakeup_fd(earlier)
        os.close(reading)
        os.close(writing)


def heed_signals() -> None:
    """End here if a signal asked for it earlier and the work went on all the same.

    Raises:
        SystemExit: SIGTERM came (status 143).
        KeyboardInterrupt: SIGINT came.
    """
    try:
        came = os.read(_notes[-1], 4096) if _notes else b""
    except BlockingIOError:
        return
    if signal.SIGTERM in came:
        _terminate()
    if signal.SIGINT in came:
        raise KeyboardInterrupt
