"""System calls that a sandboxed program may not make, as filters of bwrap and of Docker.

The BPF program of bwrap and the profile of Docker are deny lists, because a program must not fail
only because it needs a call that is unknown here. The denied calls give access to other processes,
to mounts and namespaces, to the kernel itself, or to address families that are not limited by a
network namespace. The profile replaces Docker's default profile, so it also lists the calls that
Docker denies. It uses names of calls instead of numbers, so that it fits the daemon's architecture.
"""

import errno
import functools
import json
import os
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
_NEW_NAMESPACES = (0x80, *(1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)))
"""Flags CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NETLINK, _PACKET, _VSOCK, _ALG = 16, 17, 40, 38
"""Address families."""
_LOW_32_BITS = 0xFFFFFFFF
DENIED_WITH = (
    *(("clone", 0, flag, flag) for flag in _NEW_NAMESPACES),
    *(("ioctl", 1, _LOW_32_BITS, request) for request in (_TIOCSTI, _TIOCLINUX)),
    *(("socket", 0, _LOW_32_BITS, family) for family in (_NETLINK, _PACKET, _VSOCK, _ALG)),
)
"""(call, index of an argument, mask, value): a call is denied if the masked argument has the value.
The sandbox `docker` denies them, too."""


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
    for name, index, mask, value in DENIED_WITH:
        _add(rules, deny, name, pyseccomp.Arg(index, pyseccomp.MASKED_EQ, mask, value))
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


_OLD = "create_module get_kernel_syms query_module stime sysfs _sysctl uselib ustat vm86old"
_PLACEMENT = "get_mempolicy set_mempolicy set_mempolicy_home_node mbind migrate_pages move_pages"
_MODULES = "listmount statmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules"
_DENIED_BY_DOCKER = tuple(f"{_OLD} {_PLACEMENT} {_MODULES}".split())


@functools.cache
def docker_profile() -> str:
    """Return the Docker profile as JSON.

    Denied calls fail with EPERM. clone3 fails with ENOSYS, so that libc falls back to clone.
    """
    rules = [
        _denied((*DENIED_CALLS, *_DENIED_BY_DOCKER)),
        _denied(("clone3",), error=errno.ENOSYS),
        *(_denied((name,), _masked(*argument)) for name, *argument in DENIED_WITH),
        # Setting limits of other processes. Launcher and command have the same user, so a command
        # could end the launcher by a CPU limit.
        _denied(("prlimit64",), _other_than(0, 0)),
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})


def _denied(
    names: tuple[str, ...], *arguments: dict[str, Any], error: int = errno.EPERM
) -> dict[str, Any]:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": arguments}


def _masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _other_than(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_NE"}
