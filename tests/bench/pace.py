"""How fast something runs, alone and two at a time.

Few imports: a rival's fork copies what its process has loaded.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

AT_ONCE = 2


@dataclass(frozen=True)
class Speed:
    """Runs a second with two at once, and the median of one alone in milliseconds."""

    per_s: float
    alone_ms: float


def speed(run: Callable[[], None], seconds: float) -> Speed:
    """Measure for about that long, after a few runs that do not count."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(lambda _: run(), range(2 * AT_ONCE)))
        alone = list(_timed(run, seconds / 2))
        end, counts = time.perf_counter() + seconds, [0] * AT_ONCE
        started = time.perf_counter()

        def go_on(thread: int) -> None:
            while time.perf_counter() < end:
                run()
                counts[thread] += 1

        list(threads.map(go_on, range(AT_ONCE)))
        took = time.perf_counter() - started
    return Speed(sum(counts) / took, 1000 * statistics.median(alone))


def _timed(run: Callable[[], None], seconds: float) -> Iterator[float]:
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        run()
        yield time.perf_counter() - started
