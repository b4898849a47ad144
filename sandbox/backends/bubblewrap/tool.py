"""The program `bwrap`: path, version, messages, and the file system that it shows to a program.

The system's programs and libraries, Python with its packages, and a synthetic /etc are read-only.
Three tmpfs of limited size are writable. Nothing else of the host is visible.

Commands of one session can share a folder: an empty tmpfs of limited size in its own mount
namespace, so the host's mount table and disk never contain it. It vanishes with the process that
holds the namespace, so a killed Parley process leaves nothing.
"""

import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.host.python_environment import HARNESS, interpreter, is_inside, python_roots
from sandbox.host.resource_limits import MIB, required_tool
from sandbox.host.slots import sandbox_fault
from sandbox.host.supervision import memory_file
from sandbox.interface import Sandbox, python_failure
from schemas.errors import HostShortage, SandboxUnavailable
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


NAMESPACES_AS_ROOT = (
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
"""Options for new namespaces of all kinds except user namespaces, which root does not need."""


def bwrap_path(option: str | None) -> str:
    """Return the path of `bwrap`, or of the program `option`.

    Raises:
        SandboxUnavailable: bubblewrap is not installed. The message states how to install it.
    """
    path = shutil.which(option or "bwrap")
    if path is None:
        raise SandboxUnavailable(
            f"{option or 'bwrap'}: bubblewrap is not installed. Run `apt-get install bubblewrap` "
            "(Fedora: `dnf install bubblewrap`); `--sandbox none` would run generated code "
            "without any isolation"
        )
    return path


@functools.cache
def bwrap_version(path: str) -> str:
    """Return the version of bwrap, such as `0.8.0`.

    Raises:
        SandboxUnavailable: bwrap does not run.
    """
    try:
        output = subprocess.run(
            (path, "--version"), capture_output=True, env={}, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(
            f"`{path} --version` failed: {error}. Install bubblewrap again"
        ) from error
    return output.decode(errors="replace").strip().rpartition(" ")[2]


def why_no_sandbox(returncode: int, stderr: bytes) -> SandboxUnavailable:
    """Return the error that explains why bwrap ended before it started the program.

    Args:
        returncode: exit status as in `Popen.returncode`; below zero if a signal ended bwrap.
        stderr: error output of bwrap.
    """
    if returncode < 0:
        fault = HostShortage if returncode == -signal.SIGKILL else SandboxUnavailable
        return fault(f"bubblewrap was killed by signal {-returncode}, which Parley did not send")
    message = last_line(stderr)
    if any(word in message.lower() for word in ("namespace", "not permitted", "uid map")):
        return sandbox_fault(
            f"bubblewrap may not make namespaces here ({message}): allow unprivileged user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "user.max_user_namespaces above 0, "
            "kernel.apparmor_restrict_unprivileged_userns=0), or give the container CAP_SYS_ADMIN",
            message,
        )
    return sandbox_fault(
        f"bubblewrap could not set up a sandbox (exit {returncode}): {message}", message
    )


def last_line(text: bytes) -> str:
    """Return the last line of a program's output, at most 300 characters."""
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no message"


def check_python(sandbox: Sandbox) -> None:
    """Run a trivial program.

    Raises:
        SandboxUnavailable: the interpreter or the harness cannot be read inside the sandbox.
    """
    if done := python_failure(sandbox):
        raise SandboxUnavailable(
            f"{sandbox.name}: {interpreter()} does not run inside the sandbox "
            f"(exit {done.exit_code}, signal {done.signal}): "
            f"{last_line(done.stderr)}. Its files must be readable for every user"
        )


SHARED_FOLDER = "/dev/shm"
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
    mount = f"mount -t tmpfs -o {options} tmpfs {SHARED_FOLDER} && echo ready && exec cat"
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
