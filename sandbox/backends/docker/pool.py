"""Pool of containers that are started in advance. Each is used for one session and then removed."""

import atexit
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress

from sandbox.backends.docker.container import Container, Shape
from sandbox.backends.docker.image import Image
from schemas.errors import SandboxUnavailable

_FAREWELL_S = 20.0


class WarmContainers:
    """Pool of started containers of the shape that was requested last.

    Several threads may use the pool.

    The first request of a shape starts no container in advance, since many commands run only one
    program.

    Args:
        start: function that makes a container and waits until it is ready.
        capacity: number of containers to keep started. Up to twice as many can be in removal.
    """

    def __init__(self, start: Callable[[Shape], Container], capacity: int) -> None:
        self._start, self._capacity = start, capacity
        self._lock = threading.Lock()
        self._idle: deque[tuple[Shape, Container]] = deque()
        self._requests: Counter[Shape] = Counter()
        self._starting: Counter[Shape] = Counter()
        self._leaving = threading.BoundedSemaphore(2 * capacity)
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._packages_lock = threading.Lock()
        self._packages: dict[Image, tuple[str, ...]] = {}
        atexit.register(self.close)

    def take(self, shape: Shape) -> Container:
        """Return an unused container.

        Raises:
            SandboxUnavailable: no container can be started.
        """
        if shape.binds:  # No other session uses these folders.
            return self._start(shape)
        while True:
            with self._lock:
                entry = next(((s, c) for s, c in self._idle if s == shape), None)
                if entry is not None:
                    self._idle.remove(entry)
            if entry is None:
                break
            if entry[1].is_alive():
                self._keep_ready(shape)
                return entry[1]
            self.discard(entry[1])
        container = self._start(shape)
        self._keep_ready(shape)
        return container

    def packages_of(self, shape: Shape) -> tuple[str, ...]:
        """Return the folders of packages of the Pythons of a shape's image.

        The first call for an image starts a container that reports them.

        Raises:
            SandboxUnavailable: no container can be started.
        """
        with self._packages_lock:
            if shape.image not in self._packages:
                container = self._start(shape)
                self._packages[shape.image] = container.packages
                self.discard(container)
            return self._packages[shape.image]

    def discard(self, container: Container) -> None:
        """Remove a container in the background. The call waits only if many are in removal."""
        self._leaving.acquire()

        def leave() -> None:
            try:
                container.remove()
            finally:
                self._leaving.release()

        self._in_background(leave)

    def close(self) -> None:
        """Remove every container that no session holds, and wait for the removals."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for _, container in idle:
            self.discard(container)
        deadline = time.monotonic() + _FAREWELL_S
        while (
            thread := next(iter(self._threads), None)
        ) is not None and time.monotonic() < deadline:
            thread.join(max(0.0, deadline - time.monotonic()))
            self._threads.discard(thread)

    def _keep_ready(self, shape: Shape) -> None:
        surplus: list[Container] = []
        with self._lock:
            self._requests[shape] += 1
            if self._closed or self._requests[shape] == 1:
                return
            missing = (
                self._capacity - self._starting[shape] - sum(s == shape for s, _ in self._idle)
            )
            self._starting[shape] += max(0, missing)
            while len(self._idle) > self._capacity:
                surplus.append(self._idle.popleft()[1])
        for container in surplus:
            self.discard(container)
        for _ in range(missing):
            self._in_background(lambda: self._start_spare(shape))

    def _start_spare(self, shape: Shape) -> None:
        container = None
        with suppress(SandboxUnavailable):  # The next request will report the error.
            container = self._start(shape)
        with self._lock:
            self._starting[shape] -= 1
            if container is None:
                return
            if not self._closed:
                self._idle.append((shape, container))
                return
        container.remove()

    def _in_background(self, work: Callable[[], None]) -> None:
        """Run `work` in a daemon thread, so that a hanging daemon does not block the exit."""

        def run() -> None:
            try:
                work()
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="parley-docker", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # At the interpreter's end no thread can be started.
            self._threads.discard(thread)
            work()
