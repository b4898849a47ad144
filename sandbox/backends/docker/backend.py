"""Sandbox `docker`: containers of a pinned image.

The sandbox is for machines without bubblewrap, and for toolchains that are in an image. Each
session has its own container, which is removed when the session ends. A launcher in the container
runs the commands (`launcher.py`). `sandbox/README.md` lists the attacks that it resists.
"""

import copy
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbox.backends.docker.container import Container, LeftoversRemain, Reply, Shape, start
from sandbox.backends.docker.daemon import client, daemon_version, reap
from sandbox.backends.docker.image import (
    HARNESS_DIRECTORY,
    IMAGE_VARIABLE,
    UID,
    Image,
    copy_folder,
    inspected,
    pinned,
    prepared,
)
from sandbox.backends.docker.pool import WarmContainers
from sandbox.backends.docker.pulling import digest_of
from sandbox.backends.docker.scratch import TEMPORARY, WORKING_DIRECTORY
from sandbox.host.file_archive import checked_name
from sandbox.host.python_environment import REPORT_VARIABLE, clean_environment, placed
from sandbox.host.resource_limits import bounds
from sandbox.host.slots import hold_slot, slot_count
from sandbox.host.supervision import Ending, completed
from sandbox.interface import Completed, python_failure
from sandbox.workspace.interface import COMMAND_LIMITS, ENVIRONMENT_PLACE, WorkFolder
from schemas.errors import SandboxUnavailable
from schemas.run import Limits

RUNTIME_VARIABLE = "PARLEY_DOCKER_RUNTIME"
_making_ready = threading.Lock()
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class DockerSandbox:
    """Sandbox that runs each session in its own container.

    A container has no network, a read-only root, no capability, bounded resources and its own user.
    See `sandbox.interface.Sandbox` and `sandbox.workspace.interface.HoldsWorkspaces`.

    Args:
        image: image, pinned by digest; by default PARLEY_DOCKER_IMAGE.
        runtime: runtime such as `runsc`; by default PARLEY_DOCKER_RUNTIME, or else the daemon's
            own.
        base_url: address of the daemon; by default DOCKER_HOST or the current docker context.
        cpus: number of CPUs that all programs of a session share.
        slots: maximum number of programs running at the same time on this host; by default one per
            CPU.
        slot_directory: folder of the slots' lock files.
    """

    name = "docker"
    isolated = True
    has_host_packages = False

    def __init__(
        self,
        *,
        image: str | None = None,
        runtime: str | None = None,
        base_url: str | None = None,
        cpus: float = 1.0,
        slots: int | None = None,
        slot_directory: Path | None = None,
    ) -> None:
        self._image = image or os.environ.get(IMAGE_VARIABLE)
        self._runtime = runtime or os.environ.get(RUNTIME_VARIABLE) or None
        self._base_url, self._cpus = base_url, cpus
        self._slots = slots or slot_count()
        self._slot_directory = slot_directory

    def with_image(self, image: str) -> "DockerSandbox":
        """Return a copy of this sandbox that uses another image. See `ImageSandbox`."""
        other = copy.copy(self)
        other._image = image
        return other

    def check(self) -> None:
        """Run a trivial program.

        Raises:
            SandboxUnavailable: the program fails. The message states what to start, to build or to
                set.
            ConfigError: the image is not pinned by digest.
        """
        if done := python_failure(self):
            raise SandboxUnavailable(
                f"docker: the Python of {self._image} does not run (exit {done.exit_code}, "
                f"signal {done.signal}): {done.stderr.decode(errors='replace')[-300:].strip()}"
            )

    def check_daemon(self) -> None:
        """Raise SandboxUnavailable if no daemon answers."""
        daemon_version(self._base_url)

    def has_image(self, image: str) -> bool:
        """Return True if the daemon has an image with this name."""
        return inspected(client(self._base_url, self._slots).api, image) is not None

    def pinned_by_digest(self, image: str) -> str:
        """Return a name pinned to the image that `image` refers to now, without pulling it.

        Raises:
            SourceUnreadable: no registry has such an image.
            SandboxUnavailable: no daemon answers, or no registry does.
        """
        return digest_of(client(self._base_url, self._slots).api, image)

    def fingerprint_of_images(self) -> str:
        """Return the fingerprint of a run whose programs all name their images.

        Each program's own id contains its image.
        """
        runtime = f"; runtime {self._runtime}" if self._runtime else ""
        return f"docker, an image for each program{runtime}"

    def fingerprint(self) -> str:
        return (
            f"docker {pinned(self._image)}{f'; runtime {self._runtime}' if self._runtime else ''}"
        )

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator["DockerSession"]:
        with (
            hold_slot(self._slots, self._slot_directory, limits.memory_mb),
            closing(self._session(limits, keep_files)) as session,
        ):
            yield session

    def owner(self, folder: WorkFolder) -> int | None:
        return UID if os.geteuid() == 0 else None

    @contextmanager
    def commands(self, folder: WorkFolder) -> Iterator["DockerCommands"]:
        with closing(self._session(COMMAND_LIMITS, keep_files=False, folder=folder)) as session:
            yield DockerCommands(
                session,
                lambda limits: hold_slot(self._slots, self._slot_directory, limits.memory_mb),
            )

    def copy_folder(self, path: str, into: Path) -> None:
        """Copy a folder of the image to an empty folder of this host.

        Raises:
            SandboxUnavailable: the image has no such folder.
        """
        copy_folder(client(self._base_url, self._slots).api, pinned(self._image), path, into)

    def _session(
        self, limits: Limits, keep_files: bool, folder: WorkFolder | None = None
    ) -> "DockerSession":
        name = pinned(self._image)
        with _making_ready:
            containers, image = _made_ready(self._base_url, name, self._slots, os.getpid())
            api = client(self._base_url, self._slots).api
            # The layer may be missing: it is removed with its image, which may be pulled again
            # later.
            if inspected(api, image.id) is None:
                image = prepared(api, name)
        return DockerSession(
            containers, image, self._runtime, self._cpus, limits, keep_files, folder
        )


@functools.cache
def _made_ready(
    base_url: str | None, image: str, slots: int, _pid: int
) -> tuple[WarmContainers, Image]:
    """Remove containers of killed Parley processes, add the layer to the image, and make the pool.

    This is done once for each process, daemon and image.
    """
    api = client(base_url, slots).api
    reap(api)
    ready = prepared(api, image)
    return WarmContainers(lambda shape: start(api, shape), slots), ready


class DockerCommands:
    """Commands of a workspace. See `sandbox.workspace.interface.Commands`.

    The container is kept between commands. A slot is held only while a command runs.
    """

    def __init__(
        self, session: "DockerSession", slot: Callable[[Limits], AbstractContextManager[int]]
    ) -> None:
        self._session, self._slot = session, slot

    def run(
        self, argv: tuple[str, ...], stdin: bytes, limits: Limits, is_over: Callable[[], bool]
    ) -> Completed:
        with self._slot(limits):
            return self._session.run(argv, stdin=stdin, limits=limits, is_over=is_over)


class DockerSession:
    """Session of docker. See `sandbox.interface.Session`.

    The container bounds memory, processes and scratch space of all its commands together.
    """

    def __init__(
        self,
        containers: WarmContainers,
        image: Image,
        runtime: str | None,
        cpus: float,
        limits: Limits,
        keep_files: bool,
        folder: WorkFolder | None = None,
    ) -> None:
        self._containers, self._image, self._runtime, self._cpus = containers, image, runtime, cpus
        self._limits, self._keep_files, self._folder = limits, keep_files, folder
        self._held: tuple[Shape, Container] | None = None
        self._lost = False
        """True if files that later commands need were lost with their container."""

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> Completed:
        limits = limits or self._limits
        names = [checked_name(name) for name in files or {}]
        blobs = (stdin, *(files or {}).values())
        while True:
            container = self._container(limits)
            head = {
                "argv": [placed(item, HARNESS_DIRECTORY, container.python) for item in argv],
                "environment": self._environment(),
                "report_variable": REPORT_VARIABLE,
                "files": names,
                "bounds": bounds(limits),
                "wall_s": limits.wall_s,
                "output_kb": limits.output_kb,
                "start": self._folder.place if self._folder else WORKING_DIRECTORY,
                "to_empty": self._to_empty(),
                "keep_kernel": self._keep_files,
            }
            try:
                reply = container.run(head, blobs, limits.wall_s, is_over)
            except LeftoversRemain:
                self._replace("leftovers of an earlier command cannot be cleared away")
                continue
            # Also after a signal, because the command may still run in the container.
            except BaseException:
                self._drop()
                raise
            if reply.head is None:
                self._drop()
            return _completed(reply, limits)

    def close(self) -> None:
        """Remove the container."""
        self._drop()

    def _container(self, limits: Limits) -> Container:
        """Return the session's container.

        A command whose limits need another shape gets a new container, unless files must persist.
        """
        shape_limits = limits if not self._keep_files else self._limits
        shape = Shape(
            self._image,
            self._runtime,
            self._cpus,
            shape_limits.memory_mb,
            shape_limits.processes,
            shape_limits.tmp_mb,
        )
        if self._folder is not None:
            user = shape.user if os.geteuid() == 0 else f"{os.getuid()}:{os.getgid()}"
            binds, shown = tuple(self._folder.binds.items()), tuple(self._folder.shown.items())
            shape = replace(
                shape, user=user, binds=binds, shown=shown, hidden=self._hidden(shape, self._folder)
            )
        if self._held is not None and self._held[0] != shape:
            self._drop()
        if self._held is None:
            if self._lost:
                raise SandboxUnavailable(
                    "docker: the session's container has ended, and its files are lost"
                )
            self._held = (shape, self._containers.take(shape))
        return self._held[1]

    def _hidden(self, shape: Shape, folder: WorkFolder) -> tuple[str, ...]:
        """Return folders of packages that no command may see.

        They may contain a later release of the project that the agent repairs.
        """
        if ENVIRONMENT_PLACE not in folder.shown:
            return ()
        prefixes = [Path(place) for place, outside in folder.shown.items() if place == outside]
        shown_packages = [
            str(packages)
            for prefix in prefixes
            for packages in sorted(prefix.glob("lib/python3*/*-packages"))
        ]
        return (*self._containers.packages_of(shape), *shown_packages)

    def _to_empty(self) -> tuple[str, ...]:
        lasting = (
            self._folder.binds if self._folder else (WORKING_DIRECTORY,) if self._keep_files else ()
        )
        return tuple(place for place in (WORKING_DIRECTORY, *TEMPORARY) if place not in lasting)

    def _replace(self, why: str) -> None:
        if self._keep_files:
            self._drop()
            raise SandboxUnavailable(f"docker: {why}, but the session needs its files")
        self._drop()

    def _drop(self) -> None:
        if self._held is not None:
            container, self._held = self._held[1], None
            self._lost = self._keep_files
            self._containers.discard(container)

    def _environment(self) -> dict[str, str]:
        variables = clean_environment("/tmp", 0)
        image_variables: dict[str, Any] = dict(self._image.environment)
        return {**image_variables, **variables, "PATH": image_variables.get("PATH", _DEFAULT_PATH)}


def _completed(reply: Reply, limits: Limits) -> Completed:
    head = reply.head or {"returncode": -signal.SIGKILL, "cpu_s": None, "wall_s": reply.wall_s}
    ending = Ending(
        returncode=head["returncode"],
        overran=reply.overran,
        cpu_s=head["cpu_s"] or 0.0,
        wall_s=head["wall_s"],
        stdout=reply.stdout,
        stderr=reply.stderr,
        report=reply.report,
    )
    return completed(ending, limits, cpu_s=head["cpu_s"], out_of_memory=reply.out_of_memory)
