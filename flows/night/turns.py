"""What the runs of a night, which go side by side, do one after another."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from tasks.driver.signals import heed_signals

_HEED_EVERY_S = 0.2


class Turns:
    """Locks by name. Safe by threads."""

    def __init__(self) -> None:
        self._locks: dict[str, Lock] = {}

    @contextmanager
    def alone(self, *names: str) -> Iterator[None]:
        """Do alone what has one of these names. A run that waits for another one heeds signals meanwhile."""
        with ExitStack() as held:
            for name in sorted(set(names)):
                lock = self._locks.setdefault(name, Lock())
                while not lock.acquire(timeout=_HEED_EVERY_S):
                    heed_signals()
                held.callback(lock.release)
            heed_signals()
            yield
