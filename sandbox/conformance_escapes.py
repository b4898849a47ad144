"""Conformance cases in which a program attacks the host.

Each case plants a real target and lets the program look for it. A case touches only what it
created, so it does no harm if the sandbox fails.
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sandbox.interface import Sandbox

Check = Callable[[Sandbox], str]

_SYSCALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.{name}.restype = ctypes.c_long
result = libc.{name}({arguments})
print("held" if (result, ctypes.get_errno()) == (-1, 1) else "{name} was not refused")
"""
"""Program that makes one system call. The call must be harmless even if it is allowed, because the
cases also run without isolation, as root, on the real host.
"""
_PRIVILEGES = """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
caps = [status[k].strip("\\t\\n0") for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
bad = [os.getuid() == 0, os.getgid() == 0, 0 in os.getgroups(), any(caps),
       status["NoNewPrivs"].strip() != "1"]
print("held" if not any(bad) else bad)
"""
_NETLINK = """
import socket
for family in ("AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
    kind = socket.SOCK_RAW if family != "AF_VSOCK" else socket.SOCK_STREAM
    try: socket.socket(getattr(socket, family), kind)
    except OSError: continue
    print(family, "was allowed"); break
else: print("held")
"""
_DEVICES = """
import os
known = set("console core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom "
            "zero".split())
print(sorted(set(os.listdir("/dev")) - known) or "held")
"""
_READ_ONLY = """
import os, sys, numpy
for path in (os.__file__, numpy.__file__, sys.executable, "/etc/passwd", "/usr/bin/env"):
    try: open(path, "ab").close()
    except OSError: continue
    print(path, "can be written"); break
else:
    try: os.mkdir("/parley-made"); os.rmdir("/parley-made"); print("/ can be written")
    except OSError: print("held")
"""


def checks(held: Callable[[str], Check]) -> dict[str, Check]:
    """Return all cases of this module, by name.

    Args:
        held: function that returns a check that a program ends well and prints `held`.
    """

    def with_planted(plant: Callable[[], AbstractContextManager[str]]) -> Check:
        def check(sandbox: Sandbox) -> str:
            with plant() as program:
                return held(program)(sandbox)

        return check

    planted = {
        "host_file_is_unreadable": _file_to_read,
        "host_file_is_unwritable": _file_to_write,
        "parent_environment_is_unreachable": _environment,
        "host_network_is_unreachable": _tcp_server,
        "host_abstract_socket_is_unreachable": _abstract_server,
        "host_processes_are_out_of_reach": _process,
    }
    return {
        **{name: with_planted(plant) for name, plant in planted.items()},
        "no_privileges_are_left": held(_PRIVILEGES),
        "user_namespaces_are_denied": held(_SYSCALL.format(name="unshare", arguments="0x10000000")),
        "mounts_are_denied": held(
            _SYSCALL.format(name="mount", arguments="b'none', b'/no/such/place', b'tmpfs', 0, None")
        ),
        "ptrace_is_denied": held(_SYSCALL.format(name="ptrace", arguments="0, 0, None, None")),
        "raw_sockets_are_denied": held(_NETLINK),
        "host_devices_are_absent": held(_DEVICES),
        "system_and_python_are_read_only": held(_READ_ONLY),
    }


@contextmanager
def _file_to_read() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_text("sentinel")
        os.chmod(folder, 0o755)
        yield f"""
import os
try: print("read", open({str(secret)!r}).read())
except OSError:
    shown = os.path.exists("/etc/shadow") or os.path.exists("/etc/machine-id")
    print("host's /etc" if shown else "held")
"""


@contextmanager
def _file_to_write() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "target"
        target.write_text("as it was")
        os.chmod(folder, 0o777)
        os.chmod(target, 0o666)
        yield f"""
try: open({str(target)!r}, "r+").write("changed"); print("written")
except OSError: print("held")
"""


@contextmanager
def _environment() -> Iterator[str]:
    value = secrets.token_hex(16)
    os.environ["PARLEY_CONFORMANCE_SENTINEL"] = value
    try:
        with _host_process():
            yield f"""
import glob, os
found = [k for k, v in os.environ.items() if {value[::-1]!r}[::-1] in v]
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ"):
    try: found += [path] if {value[::-1]!r}[::-1].encode() in open(path, "rb").read() else []
    except OSError: pass
print(found or "held")
"""
    finally:
        del os.environ["PARLEY_CONFORMANCE_SENTINEL"]


@contextmanager
def _tcp_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        # Two lines of heading and `lo`. Listing the interfaces would need netlink, which is denied.
        yield f"""
import socket
try: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 2); print("connected")
except OSError: print("held" if len(open("/proc/net/dev").readlines()) <= 3 else "other interfaces")
"""


@contextmanager
def _abstract_server() -> Iterator[str]:
    name = f"parley-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        yield f"""
import socket
try: socket.socket(socket.AF_UNIX).connect("\\0{name}"); print("connected")
except OSError: print("held")
"""


@contextmanager
def _process() -> Iterator[str]:
    with _host_process() as process:
        yield f"""
import os
ends = [open(f"/proc/{{p}}/cmdline", "rb").read() for p in os.listdir("/proc") if p.isdigit()]
try: os.kill({process.pid}, 9); print("killed")
except OSError: print("visible" if any(e.endswith(b"time.sleep(60)\\0") for e in ends) else "held")
"""


@contextmanager
def _host_process() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def end_marked(mark: str) -> str:
    """Kill processes of this host with the argument `mark`.

    Returns:
        A message with their number; an empty text if there were none.
    """
    pids: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(
                b"\0"
            ):
                pids.append(int(entry.name))
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return f"{len(pids)} processes outlived the run" if pids else ""
