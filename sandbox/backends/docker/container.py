"""One container and the connection to its launcher, the process that runs commands in it.

The container is created with all restrictions. The connection consists of the launcher's own stdin
and stdout, in the daemon's frames. No command ever holds one of them, so a program cannot forge the
launcher's answer.
"""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sandbox.backends.docker.daemon import OWNER, daemon_faults, owner_label, remove
from sandbox.backends.docker.image import PLACE, UID, Image
from sandbox.backends.docker.messages import pack, receive
from sandbox.backends.docker.scratch import TEMPORARY, WORKING_DIRECTORY
from sandbox.host.resource_limits import MIB
from sandbox.host.seccomp import docker_profile
from schemas.errors import SandboxUnavailable

SET_UP_S = 60.0
"""Time limit in seconds within which the launcher must report the start of a container or command.
"""
GRACE_S = 10.0
"""Seconds after a command's wall-clock limit that the launcher has to end the command and report.
"""
_LAUNCH = (
    f"import sys; sys.path.insert(0, {PLACE!r}); "
    "from sandbox.backends.docker.launcher import main; main()"
)
_LAUNCHER_MB = 32
_POLL_S = 0.25
_EMPTY = "ro,nosuid,nodev,noexec,mode=755,size=4k"
_MOST_FILES = 65536
_LONGEST_ANSWER = 256 * MIB
_STDOUT = 1
_SIGKILL = 137


@dataclass(frozen=True)
class Shape:
    """Image, limits and folders of a container. Containers of equal shape are interchangeable."""

    image: Image
    runtime: str | None
    cpus: float
    memory_mb: int
    processes: int
    tmp_mb: int
    user: str = f"{UID}:{UID}"
    binds: tuple[tuple[str, str], ...] = ()
    """Writable folders whose content persists: (path in the container, folder on the daemon's
    machine). Other writable folders are tmpfs.
    """
    shown: tuple[tuple[str, str], ...] = ()
    """Read-only folders: (path in the container, folder on the daemon's machine)."""
    hidden: tuple[str, ...] = ()
    """Folders in the container that are hidden, each under an empty folder."""


@dataclass
class Reply:
    """Launcher's answer about a command.

    `head` is None if the command or a process that it started ended the launcher.
    """

    head: dict[str, Any] | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    report: bytes = b""
    overran: bool = False
    out_of_memory: bool = False
    wall_s: float = 0.0
    """Seconds from the start of the command until the launcher replied, or until the connection
    closed or the time limit passed.
    """


class ConnectionClosed(Exception):
    """Error: the launcher closed its end of the stream."""


class LeftoversRemain(Exception):
    """Error: the launcher could not remove files or processes of an earlier command.

    It did not run the new command.
    """


@dataclass
class Container:
    """Running container with a connection to its launcher. Use it from one thread at a time."""

    api: Any
    id: str
    stream: "_Stream"
    python: str = ""
    """Path of the container's interpreter, as the launcher reports it."""
    packages: tuple[str, ...] = ()
    """Folders of packages of the image's Pythons, as the launcher reports them."""

    def is_alive(self) -> bool:
        """Return True if the launcher still listens."""
        return self.stream.is_open()

    def run(
        self,
        head: dict[str, Any],
        blobs: tuple[bytes, ...],
        wall_s: float,
        is_over: Callable[[], bool] | None = None,
    ) -> Reply:
        """Send a command to the launcher, and wait for its answer.

        Args:
            head: description of the command.
            blobs: input and files of the command.
            wall_s: wall-clock limit in seconds.
            is_over: function called several times a second; True ends the container.

        Raises:
            LeftoversRemain: nothing was run. The caller must use another container.
            SandboxUnavailable: the command was not started, or neither Parley nor the command ended
                the container.
        """
        deadline = time.monotonic() + SET_UP_S
        try:
            self.stream.send(pack(head, *blobs), deadline)
            message, _ = self.stream.message(deadline)
        except (ConnectionClosed, TimeoutError, OSError, ValueError) as error:
            raise SandboxUnavailable(
                f"docker: the launcher of container {self.id[:12]} (its first process, which runs"
                f" commands) accepts no command ({error}){self.stream.error_text()}; see the"
                " daemon's log"
            ) from error
        if "dirty" in message:
            raise LeftoversRemain
        begun = time.monotonic()
        reply = Reply()
        try:
            self._listen(reply, begun + wall_s + GRACE_S, is_over)
        except TimeoutError:
            reply.overran = True
            self._kill()
        except (ConnectionClosed, OSError, ValueError) as error:
            self._learn_ending(reply, error)
        reply.wall_s = time.monotonic() - begun
        return reply

    def _listen(self, reply: Reply, deadline: float, is_over: Callable[[], bool] | None) -> None:
        while reply.head is None:
            message, blobs = self.stream.message(deadline, is_over)
            if "report" in message:
                reply.report += blobs[0]
            else:
                reply.head, (reply.stdout, reply.stderr) = message, blobs
                reply.overran, reply.out_of_memory = message["overran"], message["memory_kills"] > 0

    def _kill(self) -> None:
        from docker.errors import NotFound

        with daemon_faults(f"end container {self.id[:12]}"), suppress(NotFound):
            # NotFound: the container ended by itself.
            self.api.remove_container(self.id, force=True)

    def _learn_ending(self, reply: Reply, error: Exception) -> None:
        """Set the result of a command during which the container ended.

        If memory ran out or the command ended the container, this is a result of the command.
        Otherwise it is a fault of the infrastructure.
        """
        with daemon_faults(f"say how container {self.id[:12]} ended"):
            self.api.wait(self.id, timeout=GRACE_S)
            state = self.api.inspect_container(self.id)["State"]
        reply.out_of_memory = bool(state.get("OOMKilled"))
        if not reply.out_of_memory and (state["ExitCode"] in (0, _SIGKILL) or state.get("Error")):
            raise SandboxUnavailable(
                f"docker: container {self.id[:12]} was ended, neither by Parley nor by its command "
                f"(exit {state['ExitCode']}, "
                f"{state.get('Error') or error}): see the daemon's log"
            )
        reply.stderr = (
            f"the launcher of this command was ended{self.stream.error_text()}\n".encode()
        )

    def remove(self) -> None:
        """End the container and remove it.

        If the daemon fails, the next call of `reap` removes what remains.
        """
        self.stream.close()
        remove(self.api, self.id)


def start(api: Any, shape: Shape) -> Container:
    """Start a container, and wait until its launcher reports.

    Raises:
        SandboxUnavailable: the daemon refuses or is too slow, or the image's Python does not run
            the launcher.
    """
    with daemon_faults("make a container"):
        container_id = api.create_container(
            shape.image.id,
            entrypoint=("python3", "-I", "-S", "-B", "-c", _LAUNCH),
            command=(),
            user=shape.user,
            working_dir=WORKING_DIRECTORY,
            hostname="sandbox",
            stdin_open=True,
            labels={OWNER: owner_label()},
            network_disabled=True,
            host_config=_host_config(api, shape),
            use_config_proxy=False,
        )["Id"]
    try:
        with daemon_faults("start a container"):
            stream = _Stream(
                api.attach_socket(
                    container_id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                )
            )
            api.start(container_id)
        container = Container(api, container_id, stream)
        greeting = _greeting(container)
        container.python, container.packages = greeting["python"], tuple(greeting["packages"])
    except BaseException:  # Also after a signal, because nothing else refers to the container.
        remove(api, container_id)
        raise
    return container


def _greeting(container: Container) -> dict[str, Any]:
    try:
        return container.stream.message(time.monotonic() + SET_UP_S)[0]
    except (ConnectionClosed, TimeoutError, OSError, ValueError) as error:
        raise SandboxUnavailable(
            "docker: the container's launcher (its first process, which runs commands) did not"
            f" start ({error}){container.stream.error_text()}; "
            "the image needs python3 (3.9 or newer) on its PATH"
        ) from error


def _host_config(api: Any, shape: Shape) -> Any:
    scratch = f"rw,exec,nosuid,nodev,mode=1777,size={shape.tmp_mb}m,nr_inodes={_MOST_FILES}"
    memory = (shape.memory_mb + _LAUNCHER_MB) * MIB
    binds = dict(shape.binds)
    return api.create_host_config(
        network_mode="none",
        read_only=True,
        tmpfs={place: scratch for place in (WORKING_DIRECTORY, *TEMPORARY) if place not in binds}
        | dict.fromkeys(shape.hidden, _EMPTY),
        mounts=[
            {
                "Type": "bind",
                "Source": source,
                "Target": place,
                "ReadOnly": (place, source) in shape.shown,
            }
            for place, source in (*shape.binds, *shape.shown)
        ],
        ipc_mode="private",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true", f"seccomp={docker_profile()}"],
        pids_limit=shape.processes + 1,  # Plus one for the launcher.
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=round(shape.cpus * 1e9),
        runtime=shape.runtime,
        log_config={"type": "none"},
        dns=["127.0.0.1"],
        ulimits=[{"Name": "core", "Soft": 0, "Hard": 0}],
    )


class _Stream:
    """Attached stream: launcher's stdin, messages from its stdout, last bytes of its stderr."""

    def __init__(self, attached: Any) -> None:
        self._attached = attached  # The connection closes if this response is garbage-collected.
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._out, self._err = bytearray(), bytearray()
        self._raw = bytearray()

    def is_open(self) -> bool:
        try:
            self._socket.settimeout(0)
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        except (TypeError, ValueError):
            # A TLS or SSH stream cannot be peeked at. The next use shows whether it has ended.
            return True

    def send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._socket.sendall(data)

    def message(
        self, deadline: float, is_over: Callable[[], bool] | None = None
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message.

        Raises:
            TimeoutError: at the deadline, or as soon as `is_over` returns True.
            ConnectionClosed: the launcher closed the stream.
            ValueError: the bytes are not a message.
        """
        return receive(lambda size: self._exactly(size, deadline, is_over), _LONGEST_ANSWER)

    def error_text(self) -> str:
        """Return the last line of the launcher's stderr, as the end of a message.

        The text is empty if there is none.
        """
        lines = bytes(self._err).decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""

    def close(self) -> None:
        with suppress(OSError):  # The daemon may have closed it first.
            self._socket.close()
        # Any error: docker-py does not promise the attribute, and closing it may fail in several
        # libraries.
        with suppress(Exception):  # the connection is given up, whatever state it is in
            self._attached._response.close()

    def _exactly(self, size: int, deadline: float, is_over: Callable[[], bool] | None) -> bytes:
        while len(self._out) < size:
            self._read(deadline, is_over)
        chunk = bytes(self._out[:size])
        del self._out[:size]
        return chunk

    def _read(self, deadline: float, is_over: Callable[[], bool] | None) -> None:
        """Read available bytes, and split the daemon's frames.

        A frame is its kind (1 byte), 3 zeros, its length (4 bytes) and its content.
        """
        left_s = deadline - time.monotonic()
        if left_s <= 0 or (is_over is not None and is_over()):
            raise TimeoutError("the launcher sent no message before the time limit")
        self._socket.settimeout(left_s if is_over is None else min(left_s, _POLL_S))
        try:
            data = self._socket.recv(1 << 20)
        except TimeoutError:  # Let the loop call `is_over` again.
            return
        if not data:
            raise ConnectionClosed("the stream has ended")
        self._raw += data
        while len(self._raw) >= 8:
            size = int.from_bytes(self._raw[4:8], "big")
            if len(self._raw) < 8 + size:
                return
            (self._out if self._raw[0] == _STDOUT else self._err).extend(self._raw[8 : 8 + size])
            del self._raw[: 8 + size]
