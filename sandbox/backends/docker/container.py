"""One container: made with every restriction, its launcher started, commands given to it over the attached stream.

The stream is the launcher's own stdin and stdout, framed by the daemon. Commands never hold either of them, so no text of a
program can pass for an answer.
"""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sandbox.backends.docker.daemon import daemon_faults
from sandbox.backends.docker.image import PLACE, UID, Image
from sandbox.backends.docker.messages import pack, receive
from sandbox.backends.docker.owner import OWNER, owner_label, remove
from sandbox.backends.docker.scratch import TEMPORARY, WORKING_DIRECTORY
from sandbox.backends.docker.seccomp import profile
from sandbox.host.rlimits import MIB
from schemas.errors import SandboxUnavailable

SET_UP_S = 60.0
"""Time from the start of a container, or of a command, to the launcher's word that it has started."""
GRACE_S = 10.0
"""Time beyond a command's wall limit in which the launcher ends and reports it."""
_LAUNCH = f"import sys; sys.path.insert(0, {PLACE!r}); from sandbox.backends.docker.launcher import main; main()"
_LAUNCHER_MB = 32
_LOOK_S = 0.25
_EMPTY = "ro,nosuid,nodev,noexec,mode=755,size=4k"
_MOST_FILES = 65536
_LONGEST_ANSWER = 256 * MIB
_STDOUT = 1
_SIGKILL = 137


@dataclass(frozen=True)
class Shape:
    """Limits that a container is made for. Containers of one shape are alike."""

    image: Image
    runtime: str | None
    cpus: float
    memory_mb: int
    processes: int
    tmp_mb: int
    user: str = f"{UID}:{UID}"
    binds: tuple[tuple[str, str], ...] = ()
    """Writable folders that last: place inside, folder on the daemon's machine. The others are tmpfs."""
    shown: tuple[tuple[str, str], ...] = ()
    """Folders that can only be read: place inside, folder on the daemon's machine."""
    hidden: tuple[str, ...] = ()
    """Folders inside in whose place an empty one stands."""


@dataclass
class Reply:
    """The launcher's answer about a command; `head` is None where the command, or its tree, did away with the launcher."""

    head: dict[str, Any] | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    report: bytes = b""
    overran: bool = False
    out_of_memory: bool = False
    wall_s: float = 0.0
    """Until the launcher's answer, or until there could be none."""


class Gone(Exception):
    """The launcher's end of the stream is closed."""


class Dirty(Exception):
    """The launcher could not clear away leftovers of an earlier command; this command was not run."""


@dataclass
class Container:
    """A container that runs, and our connection to its launcher. For one thread at a time."""

    api: Any
    id: str
    stream: "_Stream"
    python: str = ""
    """Its interpreter, once the launcher has said so."""
    packages: tuple[str, ...] = ()
    """Folders of packages of the image's Pythons, once the launcher has said so."""

    def is_alive(self) -> bool:
        """Whether the launcher still listens."""
        return self.stream.is_open()

    def run(
        self,
        head: dict[str, Any],
        blobs: tuple[bytes, ...],
        wall_s: float,
        is_over: Callable[[], bool] | None = None,
    ) -> Reply:
        """Give the launcher a command and wait for its answer.

        Args:
            is_over: asked several times a second; true ends the container.

        Raises:
            Dirty: nothing was run; take another container.
            SandboxUnavailable: the command was not started, or the container was ended from outside.
        """
        deadline = time.monotonic() + SET_UP_S
        try:
            self.stream.send(pack(head, *blobs), deadline)
            said, _ = self.stream.message(deadline)
        except (Gone, TimeoutError, OSError, ValueError) as error:
            raise SandboxUnavailable(
                f"docker: the launcher of container {self.id[:12]} takes no command ({error}){self.stream.said()}"
            ) from error
        if "dirty" in said:
            raise Dirty
        begun = time.monotonic()
        reply = Reply()
        try:
            self._listen(reply, begun + wall_s + GRACE_S, is_over)
        except TimeoutError:
            reply.overran = True
            self._kill()
        except (Gone, OSError, ValueError) as error:
            self._learn_ending(reply, error)
        reply.wall_s = time.monotonic() - begun
        return reply

    def _listen(self, reply: Reply, deadline: float, is_over: Callable[[], bool] | None) -> None:
        while reply.head is None:
            said, blobs = self.stream.message(deadline, is_over)
            if "report" in said:
                reply.report += blobs[0]
            else:
                reply.head, (reply.stdout, reply.stderr) = said, blobs
                reply.overran, reply.out_of_memory = said["overran"], said["memory_kills"] > 0

    def _kill(self) -> None:
        from docker.errors import NotFound

        with (
            daemon_faults(f"end container {self.id[:12]}"),
            suppress(NotFound),
        ):  # it ended by itself
            self.api.remove_container(self.id, force=True)

    def _learn_ending(self, reply: Reply, error: Exception) -> None:
        """The container ended under its command: by memory (a result), by the command's doing, or from outside (infra)."""
        with daemon_faults(f"say how container {self.id[:12]} ended"):
            self.api.wait(self.id, timeout=GRACE_S)
            state = self.api.inspect_container(self.id)["State"]
        reply.out_of_memory = bool(state.get("OOMKilled"))
        if not reply.out_of_memory and (state["ExitCode"] in (0, _SIGKILL) or state.get("Error")):
            raise SandboxUnavailable(
                f"docker: container {self.id[:12]} was ended from outside (exit {state['ExitCode']}, "
                f"{state.get('Error') or error}): see the daemon's log"
            )
        reply.stderr = f"the launcher of this command was ended{self.stream.said()}\n".encode()

    def remove(self) -> None:
        """End it and remove all of it. The next reaping removes whatever the daemon fails to remove now."""
        self.stream.close()
        remove(self.api, self.id)


def start(api: Any, shape: Shape) -> Container:
    """Make a container and wait for its launcher.

    Raises:
        SandboxUnavailable: the daemon refuses or is too slow, or the image's Python does not run the launcher.
    """
    with daemon_faults("make a container"):
        made = api.create_container(
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
                api.attach_socket(made, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            )
            api.start(made)
        container = Container(api, made, stream)
        greeting = _greeting(container)
        container.python, container.packages = greeting["python"], tuple(greeting["packages"])
    except BaseException:  # a signal too: nobody else knows of the container
        remove(api, made)
        raise
    return container


def _greeting(container: Container) -> dict[str, Any]:
    try:
        return container.stream.message(time.monotonic() + SET_UP_S)[0]
    except (Gone, TimeoutError, OSError, ValueError) as error:
        raise SandboxUnavailable(
            f"docker: the launcher did not start ({error}){container.stream.said()}; "
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
        security_opt=["no-new-privileges:true", f"seccomp={profile()}"],
        pids_limit=shape.processes + 1,  # and the launcher
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=round(shape.cpus * 1e9),
        runtime=shape.runtime,
        log_config={"type": "none"},
        dns=["127.0.0.1"],
        ulimits=[{"Name": "core", "Soft": 0, "Hard": 0}],
    )


class _Stream:
    """The attached stream: bytes to the launcher's stdin, messages from its stdout, the end of its stderr."""

    def __init__(self, attached: Any) -> None:
        self._attached = attached  # keeps the response, and with it the connection, alive
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
        except (
            TypeError,
            ValueError,
        ):  # no look ahead on a TLS or SSH stream: its end shows when it is used
            return True

    def send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._socket.sendall(data)

    def message(
        self, deadline: float, is_over: Callable[[], bool] | None = None
    ) -> tuple[dict[str, Any], list[bytes]]:
        """The next message. Raises TimeoutError at the deadline or once it is over, Gone, or ValueError where it is none."""
        return receive(lambda size: self._exactly(size, deadline, is_over), _LONGEST_ANSWER)

    def said(self) -> str:
        """The launcher's stderr, for a message; empty where it was silent."""
        lines = bytes(self._err).decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else ""

    def close(self) -> None:
        with suppress(OSError):  # the daemon may have closed it first
            self._socket.close()
        with suppress(
            Exception
        ):  # any: docker-py promises no such attribute, and its end may fail in several libraries' ways
            self._attached._response.close()

    def _exactly(self, size: int, deadline: float, is_over: Callable[[], bool] | None) -> bytes:
        while len(self._out) < size:
            self._read(deadline, is_over)
        taken = bytes(self._out[:size])
        del self._out[:size]
        return taken

    def _read(self, deadline: float, is_over: Callable[[], bool] | None) -> None:
        """Take in bytes that have come, and take the daemon's frames apart: kind (1 byte), 3 zeros, length (4 bytes), content."""
        left_s = deadline - time.monotonic()
        if left_s <= 0 or (is_over is not None and is_over()):
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left_s if is_over is None else min(left_s, _LOOK_S))
        try:
            data = self._socket.recv(1 << 20)
        except TimeoutError:  # time to look whether it is over
            return
        if not data:
            raise Gone("it has ended")
        self._raw += data
        while len(self._raw) >= 8:
            size = int.from_bytes(self._raw[4:8], "big")
            if len(self._raw) < 8 + size:
                return
            (self._out if self._raw[0] == _STDOUT else self._err).extend(self._raw[8 : 8 + size])
            del self._raw[: 8 + size]
