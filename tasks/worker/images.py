"""Docker images that a run's episodes need, pulled while other episodes are played."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property

from sandbox.workspace.interface import image_of
from schemas.errors import InfraError
from schemas.problem import RepoSnapshot
from tasks.storage.files.checkouts import Checkouts, with_trees
from tasks.storage.files.pulled_images import PulledImages, disk_gb
from tasks.storage.files.trees import TreeStore
from tasks.worker.jobs import RunContext

_MIB = 2**20
_WAITING = 256
"""Number of episodes of a process that may wait for an image, with a thread each."""


@dataclass(frozen=True)
class Ready:
    """Repository of an episode with the files of its image, or the fault that ends the episode."""

    repository: RepoSnapshot
    fault: InfraError | None = None


@contextmanager
def held_repository(
    context: RunContext,
    repository: RepoSnapshot,
    on_bytes: Callable[[int], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[RepoSnapshot]:
    """Hold a repository's image on the Docker daemon, and yield the repository with its trees.

    Args:
        on_bytes, is_over: See `PulledImages.held`.

    Raises:
        ImageFault: The image cannot be pulled or used.
        SandboxUnavailable: No daemon answers, or the wait was ended.
    """
    image = image_of(repository.environment)
    if not image:
        yield repository
        return
    place = context.place
    with pulled_images(context).held(image, on_bytes, is_over):
        yield with_trees(repository, Checkouts(TreeStore(place.trees), place.checkouts))


def pulled_images(context: RunContext) -> PulledImages:
    """Return the store of pulled Docker images in the run's home, with the run's disk limit."""
    return PulledImages(context.place.images, disk_gb(dict(context.resources)))


def settle_image(context: RunContext, repository: RepoSnapshot, episode_id: str) -> None:
    """Record that an episode does not need its image any more, because its programs have run."""
    image = image_of(repository.environment)
    if image:
        pulled_images(context).settle(image, episode_id)


class RunImages:
    """Docker images of the episodes that a run plays in this process.

    Args:
        count: Counts progress: pulled images, pulls in progress, MiB.
    """

    def __init__(self, context: RunContext, count: Callable[..., None]) -> None:
        self._context, self._count = context, count
        self._is_closed = threading.Event()

    @asynccontextmanager
    async def ready(self, repository: RepoSnapshot) -> AsyncIterator[Ready]:
        """Hold the repository's image on the Docker daemon for the block.

        A repository without an image is ready immediately.
        """
        if not image_of(repository.environment):
            yield Ready(repository)
            return
        with ExitStack() as stack:
            try:
                snapshot = await self._open_image(repository, stack)
            except InfraError as fault:
                yield Ready(repository, fault)
                return
            yield Ready(snapshot)

    async def _open_image(self, repository: RepoSnapshot, stack: ExitStack) -> RepoSnapshot:
        """Hold the image until the stack is closed. A cancelled caller ends the pull first."""
        is_cancelled = threading.Event()
        report = _PullReport(self._count)

        def entered() -> RepoSnapshot:
            def is_over() -> bool:
                return is_cancelled.is_set() or self._is_closed.is_set()

            try:
                return stack.enter_context(
                    held_repository(self._context, repository, report.add, is_over)
                )
            finally:
                report.end()

        waiting = asyncio.wrap_future(self._threads.submit(entered))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            is_cancelled.set()
            await asyncio.wait([waiting])
            raise

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_WAITING, thread_name_prefix="parley-images")

    def close(self) -> None:
        """End all waits for images, and begin no further pull."""
        self._is_closed.set()
        if "_threads" in vars(self):
            self._threads.shutdown(wait=False, cancel_futures=True)


class _PullReport:
    """Progress counts of one pull, from its bytes."""

    def __init__(self, count: Callable[..., None]) -> None:
        self._count, self._bytes, self._is_under_way = count, 0, False

    def add(self, n_bytes: int) -> None:
        """Count received bytes. -1 means the end of the pull."""
        if n_bytes < 0:
            self._count("converse", images=1)
            return
        if not self._is_under_way:
            self._is_under_way = True
            self._count("converse", pulls=1)
        self._bytes += n_bytes
        whole, self._bytes = divmod(self._bytes, _MIB)
        if whole:
            self._count("converse", image_mb=whole)

    def end(self) -> None:
        """Count the pull as ended, if it had begun."""
        if self._is_under_way:
            self._is_under_way = False
            self._count("converse", pulls=-1)
