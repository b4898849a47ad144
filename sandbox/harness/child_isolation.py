"""Isolates a child of the zygote for its candidate: namespaces, fresh mounts, limits, no privileges, call filter.

The zygote looks the calls up once; children inherit them. Each step raises OSError: then no candidate runs. No class is defined
here: a candidate finds every class of its process, and all that hangs on it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import shutil
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
_HUGE, _COLLAPSE = 2 << 20, 25
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
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_no_capabilities = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()


def filter_program(bpf: bytes) -> tuple[Any, Any]:
    """Give the exported system-call filter as the kernel takes it (struct sock_fprog), and the instructions it points to."""
    instructions = ctypes.create_string_buffer(bpf, len(bpf))
    head = struct.pack("@HP", len(bpf) // 8, ctypes.addressof(instructions))
    return ctypes.create_string_buffer(head, len(head)), instructions


def unshare(flags: int) -> None:
    """Leave the parent's namespaces of those kinds."""
    _checked(_libc.unshare(flags), "unshare")


def enter(namespace: int, kind: int) -> None:
    """Join the namespace of a descriptor."""
    _checked(_libc.setns(namespace, kind), "setns")


def mount_scratch(places: Sequence[str], size: int, shown: Sequence[str]) -> None:
    """Mount a fresh, sized tmpfs at each place. Everybody may write to it.

    Args:
        shown: entries of such places that stay visible, read-only, with all mounts below them.
    """
    kept = [
        (path, os.open(path, os.O_PATH | os.O_CLOEXEC))
        for path in shown
        if path.startswith(tuple(places))
    ]
    for place in places:
        _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, f"size={size},mode=1777")
    for path, descriptor in kept:
        if path not in places:
            os.mkdir(path)
        _mount(f"/proc/self/fd/{descriptor}", path, None, _BIND | _RECURSIVE)
        os.close(descriptor)
        if (
            not os.statvfs(path).f_flag & os.ST_RDONLY
        ):  # a folder that bubblewrap made on the way to what it shows
            _mount(None, path, None, _BIND | _REMOUNT | _RDONLY | _NOSUID | _NODEV)


def hidden_by_scratch(folders: Sequence[str]) -> tuple[str, ...]:
    """List the entries of scratch places that these folders are or lie in, as `mount_scratch` takes them."""
    found: dict[str, None] = {}
    for place in (*SCRATCH, WORKING_DIRECTORY):
        for folder in folders:
            if folder == place:
                found[place] = None
            elif folder.startswith(f"{place}/"):
                found[f"{place}/{folder.removeprefix(place).split('/')[1]}"] = None
    return tuple(found)


def mount_proc() -> None:
    """Mount a fresh /proc, of this process's pid namespace."""
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)


def unmount(place: str) -> None:
    """Take the uppermost mount of a place away, in use or not."""
    _checked(_libc.umount2(place.encode(), _DETACH), f"umount {place}")


def fresh_places(tmp_bytes: int, keeps_directory: bool, shown: Sequence[str]) -> None:
    """Move to mounts and IPC of our own. Called in the first process of a new pid namespace.

    Args:
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
    """Move to a network namespace of our own, with `lo` only. Returns its counters."""
    unshare(NEW_NETWORK)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sh22x", b"lo", _INTERFACE_UP))
    return traffic()


def traffic() -> tuple[bytes, ...]:
    """Read the counters of our network namespace: they would tell the next run about this one."""
    return tuple(_read(f"/proc/self/net/{name}") for name in _TRAFFIC)


def own_namespaces() -> tuple[int, int, int, int]:
    """Open the IPC, mount, network and pid namespace: a process with privileges can join them by these descriptors."""
    kinds = ("ipc", "mnt", "net", "pid")
    ipc, mounts, network, pids = (
        os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds
    )
    return ipc, mounts, network, pids


def die_first() -> None:
    """When memory is short, a run goes before its zygote, which is in the same cgroup."""
    _write("/proc/self/oom_score_adj", _FIRST_TO_DIE)


def die_with_parent() -> None:
    """Be killed when the parent ends. A change of user takes this back."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def drop_capabilities_for_good() -> None:
    """Give no program that is executed from now on a capability. This process keeps its own."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            if ctypes.get_errno() == errno.EINVAL:  # beyond the kernel's last
                return
            _checked(-1, "prctl(PR_CAPBSET_DROP)")


def become(uid: int, as_root: bool) -> None:
    """Give up every privilege. `as_root`: by changing to that user; else by a user namespace in which we are that user."""
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
    """Deny the calls of `sandbox.host.seccomp` from now on, for good and for all children."""
    _checked(
        _libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.addressof(program[0]), 0, 0),
        "prctl(PR_SET_SECCOMP)",
    )


def use_huge_pages() -> None:
    """Gather this process's own memory in huge pages, where the kernel does that: a fork then copies fewer page tables."""
    with open("/proc/self/maps") as maps:
        areas = [line.split() for line in maps]
    for place, rights, *_, name in ((*area, "") if len(area) == 5 else area for area in areas):
        if rights.startswith("rw") and name in ("", "[heap]"):
            first, end = (int(address, 16) for address in place.split("-"))
            for address in range(-(-first // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE):
                _libc.madvise(address, _HUGE, _COLLAPSE)


def set_limits(limits: Mapping[str, tuple[int, int]]) -> None:
    """Set soft and hard limits, by the names that `prlimit` uses."""
    for name, bounds in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), bounds)


def show_memory_to_own_user() -> None:
    """Have /proc/self belong to the user that we have become, as after an `exec`."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def unpack(files: Mapping[str, bytes]) -> None:
    """Write files below the working directory. A link that an earlier command left there is replaced, never followed."""
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


def _write(path: str, text: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())


def _read(path: str) -> bytes:
    """Read a file's bytes; none where the kernel has no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
