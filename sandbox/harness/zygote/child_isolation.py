"""Isolation steps that a zygote's child executes before it runs a candidate.

The steps create namespaces and fresh mounts, set limits, drop privileges and load a system-call
filter. The zygote resolves the C functions once, and its children inherit them. A step that fails
raises OSError, and then no candidate runs. This module defines no class, because a candidate can
find every class of its process, and everything reachable from it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NETWORK = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
SCRATCH = ("/tmp", "/dev/shm")
WORKING_DIRECTORY = "/box"
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _DETACH = 1, 2, 4, 8, 32, 4096, 2
_RECURSIVE, _PRIVATE = 1 << 14, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 38, 47
_AMBIENT_CLEAR_ALL, _FILTER = 4, 2
_CAPABILITY_VERSION_3 = 0x20080522
_FIRST_TO_DIE = "1000"
_SET_INTERFACE_FLAGS, _INTERFACE_UP = 0x8914, 1
_TRAFFIC = ("dev", "snmp", "snmp6", "netstat")
"""Files of /proc/net that count what a network namespace has sent and received."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.mount.argtypes = [
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
]
_no_capabilities = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()


def filter_program(bpf: bytes) -> tuple[Any, Any]:
    """Return the argument with which the kernel loads the filter, and the filter's instructions.

    The argument (struct sock_fprog) points to the instructions, so both objects must stay alive.
    """
    instructions = ctypes.create_string_buffer(bpf, len(bpf))
    head = struct.pack("@HP", len(bpf) // 8, ctypes.addressof(instructions))
    return ctypes.create_string_buffer(head, len(head)), instructions


def unshare(flags: int) -> None:
    """Move this process to new namespaces of the kinds in `flags`."""
    _checked(_libc.unshare(flags), "unshare")


def enter(namespace: int, kind: int) -> None:
    """Move this process to the namespace that a descriptor refers to."""
    _checked(_libc.setns(namespace, kind), "setns")


def mount_scratch(places: Sequence[str], size: int, shown: Sequence[str]) -> None:
    """Mount a new tmpfs of limited size at each path. Every user may write to it.

    Args:
        places: paths to mount at.
        size: size of each tmpfs in bytes.
        shown: folders below these paths that stay visible, read-only, with all mounts below them.
    """
    visible = [
        (path, os.open(path, os.O_PATH | os.O_CLOEXEC))
        for path in shown
        if path.startswith(tuple(places))
    ]
    for place in places:
        _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, f"size={size},mode=1777")
    for path, descriptor in visible:
        if path not in places:
            os.mkdir(path)
        _mount(f"/proc/self/fd/{descriptor}", path, None, _BIND | _RECURSIVE)
        os.close(descriptor)
        # A parent folder that bubblewrap made for a visible folder would be writable.
        if not os.statvfs(path).f_flag & os.ST_RDONLY:
            _mount(None, path, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV)


def hidden_by_scratch(folders: Sequence[str]) -> tuple[str, ...]:
    """Return the top-level entries of scratch folders that contain the given folders.

    They are the argument `shown` of `mount_scratch`.
    """
    entries: dict[str, None] = {}
    for place in (*SCRATCH, WORKING_DIRECTORY):
        for folder in folders:
            if folder == place:
                entries[place] = None
            elif folder.startswith(f"{place}/"):
                entries[f"{place}/{folder.removeprefix(place).split('/')[1]}"] = None
    return tuple(entries)


def mount_proc() -> None:
    """Mount a new /proc for this process's pid namespace."""
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)


def unmount(place: str) -> None:
    """Remove the topmost mount at a path, even if it is in use."""
    _checked(_libc.umount2(place.encode(), _DETACH), f"umount {place}")


def fresh_places(tmp_bytes: int, keeps_directory: bool, shown: Sequence[str]) -> None:
    """Move to new mount and IPC namespaces, in the first process of a new pid namespace.

    Args:
        tmp_bytes: size of each writable tmpfs.
        keeps_directory: if True, keep the working directory of earlier runs.
        shown: see `mount_scratch`.
    """
    unshare(NEW_MOUNTS | NEW_IPC)
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    mount_scratch(SCRATCH if keeps_directory else (*SCRATCH, WORKING_DIRECTORY), tmp_bytes, shown)
    mount_proc()
    _mount("/proc/sys", "/proc/sys", None, _BIND)
    _mount(None, "/proc/sys", None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    os.chdir(WORKING_DIRECTORY)


def fresh_network() -> tuple[bytes, ...]:
    """Move to a new network namespace with `lo` only, and return its counters."""
    unshare(NEW_NETWORK)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sh22x", b"lo", _INTERFACE_UP))
    return traffic()


def traffic() -> tuple[bytes, ...]:
    """Return the traffic counters of this network namespace.

    If a run has changed them, the namespace is not used again, because the next run could read
    them.
    """
    return tuple(_counters(f"/proc/self/net/{name}") for name in _TRAFFIC)


def own_namespaces() -> tuple[int, int, int, int]:
    """Return descriptors of the IPC, mount, network and pid namespaces of this process.

    A privileged process can join the namespaces through these descriptors.
    """
    kinds = ("ipc", "mnt", "net", "pid")
    ipc, mounts, network, pids = (
        os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds
    )
    return ipc, mounts, network, pids


def die_first() -> None:
    """Make the kernel kill this run, and not its zygote in the same cgroup, if memory runs out."""
    _write("/proc/self/oom_score_adj", _FIRST_TO_DIE)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends. A change of user cancels that."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def drop_capabilities_for_good() -> None:
    """Deny capabilities to every program that is executed from now on.

    This process keeps its own capabilities.
    """
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            # The number is beyond the kernel's last capability.
            if ctypes.get_errno() == errno.EINVAL:
                return
            _checked(-1, "prctl(PR_CAPBSET_DROP)")


def become(uid: int, as_root: bool) -> None:
    """Drop all privileges of this process.

    Args:
        uid: user to become.
        as_root: if True, change to that user; otherwise make a user namespace in which this process
            is that user.
    """
    if as_root:
        os.setgroups(())
    else:
        unshare(NEW_USER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} 0 1"),
            ("gid_map", f"{uid} 0 1"),
        ):
            _write(f"/proc/self/{name}", text)
        drop_capabilities_for_good()
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _checked(_libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl(PR_CAP_AMBIENT)")
    _checked(_libc.capset(*_no_capabilities), "capset")
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def load_filter(program: tuple[Any, Any]) -> None:
    """Load the filter of `sandbox.host.seccomp` for this process and its later children."""
    _checked(
        _libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.addressof(program[0]), 0, 0),
        "prctl(PR_SET_SECCOMP)",
    )


def set_limits(limits: Mapping[str, tuple[int, int]]) -> None:
    """Set soft and hard limits, given by the names that `prlimit` uses."""
    for name, bounds in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), bounds)


def show_memory_to_own_user() -> None:
    """Make /proc/self belong to the process's current user, as after an `exec`."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def unpack(files: Mapping[str, bytes]) -> None:
    """Write files below the working directory.

    A link that an earlier command left in place of a file or folder is replaced and never followed.
    """
    for name, content in files.items():
        *parents, last = name.split("/")
        folder = "."
        for part in parents:
            folder = f"{folder}/{part}"
            if not stat.S_ISDIR(_mode(folder)):
                _remove(folder)
                os.mkdir(folder)
        path = f"{folder}/{last}"
        _remove(path)
        with open(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb"
        ) as file:
            file.write(content)


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return 0


def _remove(path: str) -> None:
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        import shutil

        shutil.rmtree(path)
    elif mode:
        os.unlink(path)


def _mount(
    source: str | None, place: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    arguments: list[Any] = [
        None if text is None else text.encode() for text in (source, place, kind)
    ]
    _checked(
        _libc.mount(*arguments, flags, None if options is None else options.encode()),
        f"mount {place}",
    )


def _counters(path: str) -> bytes:
    """Return a file's bytes; none if the kernel has no such file."""
    try:
        return read_all(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        return b""


def read_all(descriptor: int) -> bytes:
    """Read the rest of a file and close it.

    A file object is not used, because it would make a fork copy more memory pages.

    Raises:
        OSError: the file cannot be read.
    """
    pieces: list[bytes] = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
