"""Settings of Python's garbage collector, for processes where a pause stops every dialogue."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 20, 10)
"""Thresholds of the collector.

Python's defaults are 700, 10 and 10. With them, a night of 40 s had 14 full collections of 0.2 s
each.
"""


def look_less_often() -> None:
    """Exempt all present objects from collection, and collect others less often.

    Objects outside of reference cycles are still freed immediately.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def not_collecting() -> Iterator[None]:
    """Pause the collector in a block that imports modules, and exempt their objects from it.

    It would run 50 times during the import of Prefect, and take a sixth of the import's time. One
    collection right after the block would take as long as a tenth of it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def looking_less_often() -> Iterator[None]:
    """Apply `look_less_often` within a block only, as a notebook's process needs."""
    before = gc.get_threshold()
    look_less_often()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
