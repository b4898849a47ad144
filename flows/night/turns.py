"""Locks for steps that the parallel runs of a night execute one after another."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from tasks.driver.signals import heed_signals

_HEED_EVERY_S = 0.2


class Turns:
    """Locks by name. The class is thread-safe."""

    def __init__(self) -> None:
        self._locks: dict[str, Lock] = {}

    @contextmanager
    def alone(self, *names: str) -> Iterator[None]:
        """Run the block while no other run executes a block with one of these names.

        A signal to stop ends the wait.
        """
        with ExitStack() as locks:
            for name in sorted(set(names)):
                lock = self._locks.setdefault(name, Lock())
                while not lock.acquire(timeout=_HEED_EVERY_S):
                    heed_signals()
                locks.callback(lock.release)
            heed_signals()
            yield
