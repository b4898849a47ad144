"""Repeated call of a function in a thread, while a block of code runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
