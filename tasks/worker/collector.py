"""Settings of Python's garbage collector, for processes where a pause stops every dialogue."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 20, 10)
"""Thresholds of the collector.

Python's are 700, 10 and 10. A night of 40 s then had 14 full collections of 0.2 s each.
"""


def look_less_often() -> None:
    """Exempt all present objects from collection, and collect others less often.

    Objects outside of cycles are still freed at once.
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
    """Do the same as `look_less_often` for a block, in a process such as a notebook's."""
    before = gc.get_threshold()
    look_less_often()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
