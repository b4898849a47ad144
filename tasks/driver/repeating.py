"""Something that is looked at again and again, beside the work of a block."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(look: Callable[[], bool], every_s: float, name: str) -> Iterator[None]:
    """Within the block call `look` each so many seconds, in a thread of that name, as long as it gives True.

    The block's end waits for a call that is under way.
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
