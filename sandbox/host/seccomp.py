"""System calls that a sandboxed program may not make, as one BPF program for `bwrap --seccomp`.

The filter is a deny list, because a program must not fail only because it needs a call that is
unknown here. The denied calls give access to other processes, to mounts and namespaces, to the
kernel itself, or to address families that are not limited by a network namespace.
"""

import errno
import functools
import os
import socket
from typing import Any

from schemas.errors import SandboxUnavailable

_PROCESSES = "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp"
_MOUNTS = (
    "mount umount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig "
    "fsmount fspick mount_setattr swapon swapoff quotactl quotactl_fd name_to_handle_at "
    "open_by_handle_at"
)
_NAMESPACES = "unshare setns"
_KERNEL = (
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl "
    "add_key request_key init_module finit_module delete_module kexec_load kexec_file_load reboot "
    "acct syslog lookup_dcookie iopl ioperm modify_ldt vm86 settimeofday clock_settime "
    "clock_adjtime adjtimex sethostname setdomainname vhangup nfsservctl fanotify_init"
)
DENIED_CALLS = tuple(f"{_PROCESSES} {_MOUNTS} {_NAMESPACES} {_KERNEL}".split())
"""Names of the calls that are denied with any arguments. The sandbox `docker` denies them, too."""
NEW_NAMESPACE_FLAGS = (
    0x00000080,
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
"""Flags CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAMILIES = ("AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG")
_LOW_32_BITS = 0xFFFFFFFF


@functools.cache
def denied_calls_bpf() -> bytes:
    """Return the filter, which is compiled once in each process.

    Denied calls fail with EPERM. clone3 fails with ENOSYS, so that libc falls back to clone.

    Raises:
        SandboxUnavailable: libseccomp is missing. Nothing runs without the filter.
    """
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise SandboxUnavailable(
            f"the system-call filter cannot be built ({error}): "
            "install libseccomp (`apt-get install libseccomp2`)"
        ) from error
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    deny = pyseccomp.ERRNO(errno.EPERM)
    for name in DENIED_CALLS:
        _add(rules, deny, name)
    _add(rules, pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    for flag in NEW_NAMESPACE_FLAGS:
        _add(rules, deny, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for request in (_TIOCSTI, _TIOCLINUX):
        _add(rules, deny, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _LOW_32_BITS, request))
    for family in _FAMILIES:
        number = getattr(socket, family, None)
        if number is not None:
            _add(
                rules,
                deny,
                "socket",
                pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _LOW_32_BITS, int(number)),
            )
    return _exported(rules)


def _add(rules: Any, action: Any, name: str, *arguments: Any) -> None:
    """Add a rule, unless this architecture or this libseccomp has no such call."""
    import pyseccomp

    try:
        number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    except (ValueError, OSError):
        return
    if number >= 0:
        rules.add_rule(action, name, *arguments)


def _exported(rules: Any) -> bytes:
    descriptor = os.memfd_create("parley-seccomp")
    with os.fdopen(descriptor, "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
