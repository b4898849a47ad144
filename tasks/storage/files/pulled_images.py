"""Docker images that Parley pulls when an episode first needs them, and removes to make room.

The limit of disk space applies to all processes of a home together. Images in use stay, and so do
images that Parley did not pull.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.backends.docker.daemon import client
from sandbox.backends.docker.image import inspected
from sandbox.backends.docker.pulling import layer_bytes, pull, remove_image
from sandbox.host.abandoned import pid_namespace, start_time
from schemas.content_id import content_id
from schemas.errors import ConfigError, ImageFault, SandboxUnavailable, SourceUnreadable
from tasks.storage.new_folder import replace_file

DISK = "images_gb"
"""Resource that limits the disk space of pulled images."""
DISK_FORM = "It limits the disk space of the images that Parley pulls, in GB, for example 100"
_USUAL_GB, _GB = 100.0, 10**9
_USUAL_IMAGE = 3 * _GB
"""Assumed size of an image until one is pulled. SWE-bench's images have 1 to 3 GB."""
_PULLS = 4
"""Number of concurrent pulls. A registry limits each connection; further pulls gain nothing."""
_LOOK_S = 0.2
_DAY_S = 86_400.0
_ROOM_WAIT_S = 60.0
"""Seconds to wait for room, before images are removed that pending episodes need."""


def disk_gb(resources: Mapping[str, str]) -> float:
    """Return the limit of disk space in GB, as the resources set it.

    Raises:
        ConfigError: the value is no positive number.
    """
    value = resources.get(DISK, str(_USUAL_GB))
    try:
        limit = float(value)
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise ConfigError(f"--resource {DISK}={value}: must be a number above 0. {DISK_FORM}")
    return limit


@dataclass
class PulledImages:
    """Images that the processes of one home pulled onto the daemon of this machine.

    Several processes may use it.

    Args:
        folder: folder of the records, created with the first one.
        bound_gb: disk space in GB for all pulled images together. A single image may exceed it.
        room_wait_s: seconds that a pull waits for room, before images are removed that pending
            episodes need.
    """

    folder: Path
    bound_gb: float = _USUAL_GB
    room_wait_s: float = _ROOM_WAIT_S

    @contextmanager
    def held(
        self,
        image: str,
        report: Callable[[int], None] = lambda _: None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Iterator[None]:
        """Keep an image on the daemon during the block. It is pulled first if it is missing.

        Args:
            image: image, pinned by digest.
            report: called with the number of bytes since the last call, and with -1 at the end.
            is_over: called while the block waits. True ends the waiting.

        Raises:
            ImageFault: the image cannot be pulled. The message contains the cause.
            SandboxUnavailable: no daemon answers, or `is_over` ended the waiting.
        """
        api = client(None, 1).api
        with _locked(self._path("leases", image), fcntl.LOCK_SH, is_over):
            if inspected(api, image) is None:
                with _locked(self._path("pulls", image), fcntl.LOCK_EX, is_over):
                    if inspected(api, image) is None:
                        self._pull(api, image, report, is_over)
            self._touch(image)
            try:
                yield
            finally:
                self._touch(image)

    def expect(self, episodes: Iterable[tuple[str, str]]) -> None:
        """Record the images that pending episodes of this process will need.

        Args:
            episodes: pending episodes: (image, episode id).
        """
        self._forget_dead()
        for image, episode_id in episodes:
            marker = self.folder / "pending" / _own_name() / content_id(image) / episode_id
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()

    def settle(self, image: str, episode_id: str) -> None:
        """Record that an episode no longer needs its image."""
        for marker in self.folder.glob(f"pending/*/{content_id(image)}/{episode_id}"):
            marker.unlink(missing_ok=True)

    def is_pending(self, image: str) -> bool:
        """Return True if a pending episode of a living process needs the image."""
        markers = self.folder.glob(f"pending/*/{content_id(image)}/*")
        return any(_is_alive(marker, marker.parents[1].name) for marker in markers)

    def used_bytes(self) -> int:
        """Return the size of all present pulled images. A layer that images share counts once."""
        layers: dict[str, int] = {}
        for record in self._records():
            layers |= record["layers"] if record["is_here"] else {}
        return sum(layers.values())

    def _pull(
        self, api: Any, image: str, report: Callable[[int], None], is_over: Callable[[], bool]
    ) -> None:
        with self._slot(is_over):
            reserved = self._with_room(api, image, is_over)
            try:
                pull(api, image, report, is_over)
            except SourceUnreadable as error:
                raise ImageFault(f"image_missing: {error}", permanent=True) from error
            except SandboxUnavailable as error:
                if is_over():
                    raise
                raise ImageFault(f"image_missing: {error}") from error
            else:
                self._write(
                    image, {"image": image, "is_here": True, "layers": layer_bytes(api, image)}
                )
            finally:
                reserved.unlink(missing_ok=True)
        report(-1)

    def _with_room(self, api: Any, image: str, is_over: Callable[[], bool]) -> Path:
        """Wait until there is room for an image, and return the file that reserves the room."""
        start = time.monotonic()
        while True:
            with _locked(self.folder / "room.lock", fcntl.LOCK_EX, is_over):
                if (
                    self._has_room()
                    or self._removed_any(api, time.monotonic() - start > self.room_wait_s) is None
                ):
                    place = self.folder / "reserved" / f"{_own_name()}-{content_id(image)}"
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.touch()
                    return place
            _wait(is_over)

    def _has_room(self) -> bool:
        records = self._records()
        largest = max((sum(record["layers"].values()) for record in records), default=_USUAL_IMAGE)
        return self.used_bytes() + (self._n_on_their_way() + 1) * largest <= self.bound_gb * _GB

    def _n_on_their_way(self) -> int:
        return sum(
            _is_alive(path, path.name.rpartition("-")[0]) for path in self.folder.glob("reserved/*")
        )

    def _removed_any(self, api: Any, with_pending: bool) -> bool | None:
        """Remove the least recently used image, preferably one that no pending episode needs.

        Args:
            api: client of the daemon.
            with_pending: True if an image that a pending episode needs may be removed.

        Returns:
            True if an image was removed; False if waiting can help, because images are present or
            being pulled; None if there are no images.
        """
        here = [record for record in self._records() if record["is_here"]]
        if not here and not self._n_on_their_way():
            return None
        ranked = sorted(
            (self.is_pending(record["image"]), self._used_at(record["image"]), record["image"])
            for record in here
        )
        for is_pending, _, image in ranked:
            if is_pending and not with_pending:
                break
            if self._removed(api, image):
                return True
        return False

    def _removed(self, api: Any, image: str) -> bool:
        with suppress(BlockingIOError), _lock(self._path("leases", image)):
            if remove_image(api, image):
                record = json.loads(self._path("records", image).read_text())
                self._write(image, record | {"is_here": False})
                return True
        return False

    def _records(self) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for path in self.folder.glob("records/*"):
            # A record may be half-written or of another release. Its image then stays.
            with suppress(OSError, ValueError):
                records.append(json.loads(path.read_text()))
        return records

    def _write(self, image: str, record: Mapping[str, Any]) -> None:
        replace_file(self._path("records", image), json.dumps(record).encode())

    def _path(self, kind: str, image: str) -> Path:
        path = self.folder / kind / content_id(image)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _touch(self, image: str) -> None:
        with suppress(OSError):
            os.utime(self._path("leases", image))

    def _used_at(self, image: str) -> int:
        try:
            return self._path("leases", image).stat().st_mtime_ns
        except OSError:
            return 0

    @contextmanager
    def _slot(self, is_over: Callable[[], bool]) -> Iterator[None]:
        with ExitStack() as stack:
            while not any(self._took_slot(stack, number) for number in range(_PULLS)):
                _wait(is_over)
            yield

    def _took_slot(self, stack: ExitStack, number: int) -> bool:
        try:
            stack.enter_context(_lock(self.folder / f"slot-{number}.lock"))
        except BlockingIOError:
            return False
        return True

    def _forget_dead(self) -> None:
        import shutil

        for path in self.folder.glob("pending/*"):
            if not _is_alive(path, path.name):
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a file's exclusive lock. Raises BlockingIOError if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path, how: int, is_over: Callable[[], bool]) -> Iterator[None]:
    """Wait for a file's lock and hold it during the block.

    Args:
        path: file of the lock, created if missing.
        how: `fcntl.LOCK_SH` or `fcntl.LOCK_EX`.
        is_over: called while the block waits. True ends the waiting.

    Raises:
        SandboxUnavailable: `is_over` ended the waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                _wait(is_over)
        yield
    finally:
        os.close(descriptor)


def _wait(is_over: Callable[[], bool]) -> None:
    if is_over():
        raise SandboxUnavailable("docker: the wait for an image was cancelled")
    time.sleep(_LOOK_S)


def _own_name() -> str:
    return f"{pid_namespace()}-{os.getpid()}-{start_time(os.getpid())}"


def _is_alive(path: Path, name: str) -> bool:
    """Return True if the process that the file's name identifies is alive.

    A process of another pid namespace counts as alive until its file is a day old.
    """
    namespace, _, process = name.partition("-")
    pid, _, start = process.partition("-")
    if namespace == str(pid_namespace()):
        return pid.isdigit() and start_time(int(pid)) == start
    try:
        return time.time() - path.stat().st_mtime < _DAY_S
    except OSError:
        return False
