"""Empty tmpfs of limited size that several sandboxes use one after another.

The tmpfs is mounted in its own mount namespace, so the host's mount table and disk never contain
it. It vanishes with the process that holds the namespace, so a killed Parley process leaves
nothing.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.host.resource_limits import required_tool
from schemas.errors import SandboxUnavailable

PATH = "/dev/shm"
"""Path at which the tmpfs is mounted in its namespace."""


@contextmanager
def shared_folder(size_bytes: int) -> Iterator[tuple[str, ...]]:
    """Mount a new shared folder, and yield the command prefix that makes the folder visible.

    Raises:
        SandboxUnavailable: no mount namespace can be made.
    """
    as_root = os.geteuid() == 0
    owner = () if as_root else ("--user", "--map-current-user")
    options = f"nosuid,nodev,mode=0777,size={size_bytes}"
    mount = f"mount -t tmpfs -o {options} tmpfs {PATH} && echo ready && exec cat"
    keeper = subprocess.Popen(
        (
            required_tool("unshare"),
            *owner,
            *(() if as_root else ("--keep-caps",)),
            "--mount",
            "/bin/sh",
            "-c",
            mount,
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    try:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if keeper.stdout.readline() != b"ready\n":
            raise SandboxUnavailable(
                "the session's files could not be mounted privately "
                f"({keeper.stderr.read().decode(errors='replace').strip()}): "
                "this needs root or unprivileged user namespaces"
            )
        yield (
            required_tool("nsenter"),
            *(() if as_root else (f"--user=/proc/{keeper.pid}/ns/user", "--preserve-credentials")),
            f"--mount=/proc/{keeper.pid}/ns/mnt",
            "--",
        )
    finally:
        keeper.communicate()
