"""Python's garbage collector in processes where a pause stops every dialogue at once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 20, 10)
"""Python's are 700, 10 and 10, with which a night of 40 s looked 14 times through all that it held, 0.2 s each."""


def look_less_often() -> None:
    """Have the collector leave alone what is imported by now, and look more seldom at the rest.

    Objects outside of cycles are freed at once, as ever.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def not_collecting() -> Iterator[None]:
    """Pause the collector in a block that imports modules.

    It would look 50 times through the modules of Prefect, which takes a sixth of their import.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def looking_less_often() -> Iterator[None]:
    """The same for the time of a block, in a process that is somebody else's, such as a notebook's."""
    before = gc.get_threshold()
    look_less_often()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
