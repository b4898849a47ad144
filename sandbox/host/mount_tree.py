"""File system that a sandboxed program sees, as arguments for bwrap.

The system's programs and libraries, Python with its packages, and a synthetic /etc are read-only.
Three tmpfs of limited size are writable. Nothing else of the host is visible.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.host.python_environment import HARNESS, is_inside, python_roots
from sandbox.host.resource_limits import MIB
from sandbox.host.supervision import memory_file
from schemas.run import Limits

WORKING_DIRECTORY = "/box"
HARNESS_DIRECTORY = "/harness"
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FROM_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")


@dataclass(frozen=True)
class Folders:
    """Folder in which a command starts, and folders of this host that it sees.

    Other writable folders are empty tmpfs.
    """

    start: str = WORKING_DIRECTORY
    binds: Mapping[str, str] = field(default_factory=dict[str, str])
    """Map from a path in the sandbox to the folder of this host that is mounted there."""
    shown: Mapping[str, str] = field(default_factory=dict[str, str])
    """Map from a path in the sandbox to the folder of this host that is mounted there read-only."""
    hides_packages: bool = False
    """True if the packages of this host's Pythons are hidden, because they may contain a later
    release of the project that an agent repairs.
    """


def mount_arguments(
    limits: Limits, uid: int, folders: Folders, stack: ExitStack
) -> tuple[list[str], list[int]]:
    """Return bwrap arguments for the whole file system, and the descriptors in them.

    Args:
        limits: limits of the command. They set the sizes of the tmpfs.
        uid: user id of the program, for /etc/passwd.
        folders: folders that the command sees.
        stack: stack that closes the descriptors.
    """
    scratch = ("--perms", "1777", "--size", str(limits.tmp_mb * MIB), "--tmpfs")
    synthetic, descriptors = _synthetic_etc(uid, stack)
    arguments = [
        *_system_folders(),
        *synthetic,
        *("--proc", "/proc", "--dev", "/dev", *scratch, "/dev/shm", "--remount-ro", "/dev"),
        *(
            item
            for place in ("/tmp", folders.start)
            if place not in folders.binds
            for item in (*scratch, place)
        ),
        *(item for place, outside in folders.binds.items() for item in ("--bind", outside, place)),
        *_read_only({**folders.shown, **{folder: folder for folder in python_roots()}}),
        *("--ro-bind", str(HARNESS), HARNESS_DIRECTORY),
        *_masks(),
        *_without_packages(folders),
        *("--remount-ro", "/", "--chdir", folders.start),
    ]
    return arguments, descriptors


def _system_folders() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for folder in _SYSTEM:
        if os.path.islink(folder):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)


def _synthetic_etc(uid: int, stack: ExitStack) -> tuple[list[str], list[int]]:
    texts = {
        "passwd": f"root:x:0:0::/:/bin/sh\nsandbox:x:{uid}:{uid}::/tmp:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{uid}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    }
    arguments = ["--perms", "0755", "--dir", "/etc"]
    descriptors: list[int] = []
    for name, text in texts.items():
        descriptors.append(memory_file(name, text.encode(), stack))
        arguments += ["--perms", "0644", "--file", str(descriptors[-1]), f"/etc/{name}"]
    # A JVM does not start without its settings in /etc.
    java = sorted(folder.name for folder in Path("/etc").glob("java-*-openjdk"))
    for name in (*_FROM_ETC, *java):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return arguments, descriptors


def _read_only(folders: Mapping[str, str]) -> Iterator[str]:
    """Yield arguments that mount folders read-only at their paths in the sandbox.

    bwrap makes missing parents for its own user only, so each parent is made for all users first.
    """
    parents: set[str] = set()
    for place, outside in folders.items():
        if is_inside(place, "/usr"):
            continue
        for parent in reversed(Path(place).parents):
            if str(parent) != "/" and str(parent) not in {"/tmp", *parents}:
                parents.add(str(parent))
                yield from ("--perms", "0755", "--dir", str(parent))
        yield from ("--ro-bind", outside, place)


def _without_packages(folders: Folders) -> Iterator[str]:
    """Yield arguments that hide the packages of visible Pythons, except an environment's.

    An empty folder is mounted over each folder of packages.
    """
    if not folders.hides_packages:
        return
    same = [place for place, outside in folders.shown.items() if place == outside]
    for root in ("/usr", "/usr/local", *python_roots(), *same):
        for folder in sorted(Path(root).glob("lib/python3*/*-packages")):
            if folder.is_dir() and not folder.is_symlink():
                yield from ("--perms", "0755", "--tmpfs", str(folder), "--remount-ro", str(folder))


def _masks() -> Iterator[str]:
    """Yield arguments that hide Parley's own data, if it is in a visible folder.

    An empty folder is mounted over it.
    """
    home = os.path.abspath(os.environ.get("PARLEY_HOME") or ".parley")
    if os.path.isdir(home) and any(is_inside(home, root) for root in ("/usr", *python_roots())):
        yield from ("--tmpfs", home, "--remount-ro", home)
