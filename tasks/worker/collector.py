"""Python's garbage collector in processes where a pause stops every dialogue at once."""

import gc

_THRESHOLDS = (20_000, 20, 10)
"""Python's are 700, 10 and 10: within minutes it would look dozens of times through all that a night holds, 0.2 s each."""


def look_less_often() -> None:
    """Have the collector leave alone what is imported by now, and look more seldom at the rest.

    What no cycle holds is freed at once, as ever.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
