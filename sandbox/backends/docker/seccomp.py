"""System-call filter of containers, as a Docker seccomp profile.

The profile denies the calls that bubblewrap's filter and Docker's default profile deny. It replaces
Docker's default profile, so it also lists the calls that Docker denies. It uses names of calls
instead of numbers, so that it fits the daemon's architecture. The profile is a deny list, because a
program must not fail only because it needs a call that is unknown here.
"""

import errno
import functools
import json
from typing import Any

from sandbox.host.seccomp import DENIED_CALLS, DENIED_WITH

_OLD = "create_module get_kernel_syms query_module stime sysfs _sysctl uselib ustat vm86old"
_PLACEMENT = "get_mempolicy set_mempolicy set_mempolicy_home_node mbind migrate_pages move_pages"
_MODULES = "listmount statmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules"
_DENIED_BY_DOCKER = tuple(f"{_OLD} {_PLACEMENT} {_MODULES}".split())


@functools.cache
def profile() -> str:
    """Return the profile as JSON.

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
