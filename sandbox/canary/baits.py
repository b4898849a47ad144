"""Baits for attacks on the host: real objects, so that an escape is detected."""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_HOLDER = "import os, sys, time; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"


@contextmanager
def planted_baits() -> Iterator[Mapping[str, str]]:
    """Create baits for the duration of the block, and yield values for `Program.with_baits`.

    FILE: a file that every user may read and write. FOLDER: the folder of FILE, writable for every
    user. SENTINEL: content of FILE, and value of a variable in the environment of process PID.
    PORT: a listening TCP port on loopback. SOCKET: the name of a listening abstract socket. MARK: a
    word that attacks put into the names of files that they create.
    """
    sentinel = secrets.token_hex(8)
    with (
        tempfile.TemporaryDirectory(prefix="parley-bait-") as folder,
        socket.create_server(("127.0.0.1", 0), backlog=64) as tcp,
        socket.socket(socket.AF_UNIX) as local,
        _process({"PARLEY_BAIT": sentinel}) as process,
    ):
        os.chmod(folder, 0o777)
        file = Path(folder) / "bait"
        file.write_text(sentinel)
        os.chmod(file, 0o666)
        name = f"parley-bait-{sentinel}"
        if sys.platform == "linux":
            local.bind(f"\0{name}")
            local.listen(64)
        yield {
            "FILE": str(file),
            "FOLDER": folder,
            "SENTINEL": sentinel,
            "PORT": str(tcp.getsockname()[1]),
            "SOCKET": name,
            "PID": str(process.pid),
            "MARK": f"parley-attack-{sentinel}",
        }


@contextmanager
def _process(environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-S", "-c", _HOLDER]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        process.stdout.read(1)  # The process has started and has its environment.
        yield process
    finally:
        process.kill()
        process.communicate()
