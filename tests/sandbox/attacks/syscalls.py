"""Doors of the kernel that no program needs: each is knocked at with arguments that do no harm
where it opens.
"""

import platform

from sandbox.canary.release import Program, read_programs

_NUMBERS = {
    "ptrace": (101, 117, "0, 0, 0, 0"),
    "mount": (165, 40, "0, 0, 0, 0, 0"),
    "umount2": (166, 39, "b'/no/such/place', 0"),
    "pivot_root": (155, 41, "b'/no', b'/no'"),
    "chroot": (161, 51, "b'.'"),
    "unshare(CLONE_NEWUSER)": (272, 97, "0x10000000"),
    "unshare(CLONE_NEWNS)": (272, 97, "0x20000"),
    "setns": (308, 268, "0, 0"),
    "bpf": (321, 280, "0, 0, 0"),
    "keyctl": (250, 219, "0, -3, 0"),
    "add_key": (248, 217, "b'user', b'x', b'x', 1, -3"),
    "userfaultfd": (323, 282, "0x80001"),
    "io_uring_setup": (425, 425, "1, 0"),
    "init_module": (175, 105, "0, 0, b''"),
    "finit_module": (313, 273, "0, b'', 0"),
    "perf_event_open": (298, 241, "0, 0, -1, -1, 0"),
    "kexec_load": (246, 104, "0, 0, 0, 0"),
    "open_by_handle_at": (304, 265, "-1, 0, 0"),
    "process_vm_readv": (310, 270, "1, 0, 0, 0, 0, 0"),
    "fsopen": (430, 430, "b'tmpfs', 0"),
    "open_tree": (428, 428, "-100, b'/', 0"),
    "pidfd_getfd": (438, 438, "0, 0, 0"),
    "clock_settime": (227, 112, "0, 0"),
    "sethostname": (170, 161, "b'x', -1"),
}
"""name -> number on x86-64, on aarch64, arguments."""
_PROGRAM = """\
### escape: {name}
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(ctypes.c_long({number}), {arguments})
print('held' if result == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS, errno.EACCES) else 'escaped')
"""


def system_call_attacks() -> tuple[Program, ...]:
    """One program for each door; none on machines whose numbers we do not know."""
    column = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
    if column is None:
        return ()
    texts = [
        _PROGRAM.format(name=name, number=row[column], arguments=row[2])
        for name, row in _NUMBERS.items()
    ]
    return read_programs("".join(texts))
