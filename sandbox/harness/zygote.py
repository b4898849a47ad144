"""A warm Python inside bubblewrap: libraries loaded once, a child forked for each run, isolated from all others.

Trusted, standard library only. It learns nothing about a run: what that needs comes as descriptors, which only its child reads,
so that no child finds in its memory what an earlier one was given. One run at a time; it ends with its driver's socket.
No class is defined here: a candidate finds every class of its process, and what hangs on it.

A child is the first process of a pid namespace, so that its death is that of the whole run. A script of this folder that says
`RUNS_AS_FIRST_PROCESS` runs right in it; any other command runs in a process of its own below it.
"""

from __future__ import annotations

import fcntl
import gc
import marshal
import os
import signal
import socket
import sys
import traceback
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import child_isolation as isolation
from warm_interpreter import as_interpreter, end, load_scripts, preload

del sys.path[0], sys.modules["child_isolation"], sys.modules["warm_interpreter"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

SCRIPT_FLAGS = ("-S", "-s", "-P")
"""The flags of this interpreter: only with them may a script of this folder run in a fork instead of a fresh one."""
_REPORT_FD = 3
_FIRST_HIGH_FD = 64
_LONGEST_MESSAGE = 1 << 16
_RUN_DESCRIPTORS = 6
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIRST_TO_DIE = "1000"
"""When memory is short, a run goes before its zygote, which is in the same cgroup."""
_UNPACKING_FAILED, _NOT_FOUND, _NOT_EXECUTABLE = 73, 127, 126


def serve(control: socket.socket, child_of: Callable[[list[int]], Callable[[], None]]) -> Callable[[], None]:
    """Answer until the driver is gone. Returns only in a child: what it is to run, with nothing of ours on the stack."""
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, _LONGEST_MESSAGE, _RUN_DESCRIPTORS)
        if not message:
            os._exit(0)
        order, size = marshal.loads(message)
        if order != "run":
            answer(control, keep_directory(order, size))
            continue
        isolation.unshare(isolation.NEW_PIDS)
        child = os.fork()
        if child == 0:
            return child_of(descriptors)
        isolation.enter(own_pids, isolation.NEW_PIDS)
        wait_for(control, child, descriptors)


def wait_for(control: socket.socket, child: int, descriptors: list[int]) -> None:
    """Name the child by a pidfd; say how it ended and whether all is as it was."""
    for descriptor in descriptors:
        os.close(descriptor)
    ended = os.pidfd_open(child)
    answer(control, "running", (ended,))
    os.close(ended)
    _, status, usage = os.wait4(child, 0)
    answer(control, (os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, resident(), others()))


def answer(control: socket.socket, value: Any, descriptors: tuple[int, ...] = ()) -> None:
    """Tell the driver; descriptors go along."""
    socket.send_fds(control, [marshal.dumps(value)], descriptors)


def keep_directory(order: str, size: int) -> str:
    """Give the next children one working directory, or each its own again; a text says why not."""
    try:
        if order == "keep":
            isolation.mount_scratch(isolation.WORKING_DIRECTORY, size)
        else:
            isolation.unmount(isolation.WORKING_DIRECTORY)
    except OSError as error:
        return str(error)
    return ""


def isolated(descriptors: list[int], as_root: bool, program: tuple[Any, Any]) -> dict[str, Any]:
    """In the child: isolate, write the run's files. Returns the request; a fault before that is told on the status descriptor.

    Args:
        program: the system-call filter.
    """
    status = -1
    try:
        request_fd, status = place_descriptors(descriptors)
        request = read_request(request_fd)
        os.setsid()
        write_text("/proc/self/oom_score_adj", _FIRST_TO_DIE)
        isolation.fresh_places(request["tmp_bytes"], request["keeps_directory"])
        isolation.become(request["uid"], as_root)
        isolation.load_filter(program)
        os.write(status, b"ready")
    except BaseException as error:  # noqa: BLE001 - whatever it is, the driver is told
        if status >= 0:
            os.write(status, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    os.close(status)
    try:
        isolation.unpack(request["files"])
    except OSError as error:
        os.write(2, f"cannot write the files of the run: {error}\n".encode())
        os._exit(_UNPACKING_FAILED)
    return request


def place_descriptors(descriptors: list[int]) -> tuple[int, int]:
    """stdin, stdout, stderr and report to 0..3; request and status high up, and nothing else of the zygote's stays open."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_HIGH_FD) for descriptor in descriptors]
    for target, descriptor in enumerate(high[:4]):
        os.dup2(descriptor, target)
        os.close(descriptor)
    request, status = high[4:]
    for first, stop in ((_REPORT_FD + 1, request), (request + 1, status), (status + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(first, stop)
    return request, status


def read_request(descriptor: int) -> dict[str, Any]:
    """What the driver wants run; the descriptor is closed."""
    with open(descriptor, "rb") as file:
        return marshal.loads(file.read())


def command(request: dict[str, Any], scripts: dict[str, types.ModuleType], loaded_bytes: int) -> Callable[[], None]:
    """Become the command's process, by `exec` or by returning a script's `main`.

    Args:
        loaded_bytes: address space of the preloaded libraries; it does not count against the run's.
    """
    argv, limits, first = request["argv"], request["limits"], len(SCRIPT_FLAGS) + 1
    script = scripts.get(argv[first]) if len(argv) > first and argv[1:first] == SCRIPT_FLAGS else None
    if script is None or argv[0] != sys.executable:
        stay_first()
        execute(argv, request["environment"], limits)
    if not getattr(script, "RUNS_AS_FIRST_PROCESS", False):
        stay_first()
    limits["as"] = tuple(bound + loaded_bytes for bound in limits["as"])
    as_interpreter(script, argv[first:], request["environment"])
    isolation.show_memory_to_own_user()
    isolation.set_limits(limits)
    return script.main


def stay_first() -> None:
    """Go on in a child. The first process stays: it takes in orphans and hands on how the child ends."""
    child = os.fork()
    if child == 0:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(_REPORT_FD + 1):
        os.dup2(null, descriptor)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(128 - code if code < 0 else code)


def execute(argv: tuple[str, ...], environment: dict[str, str], limits: dict[str, tuple[int, int]]) -> NoReturn:
    """Become a fresh program."""
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them, and programs would inherit that
        isolation.set_limits(limits)
        os.execvpe(argv[0], argv, environment)
    except FileNotFoundError:
        os.write(2, f"{argv[0]}: not found\n".encode())
        os._exit(_NOT_FOUND)
    except (OSError, ValueError) as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
        os._exit(_NOT_EXECUTABLE)


def address_space() -> int:
    """Bytes of this process's address space."""
    return int(read_text("/proc/self/statm").split()[0]) * _PAGE


def resident() -> int:
    """Bytes of memory in use that are this process's own, less what it maps from files."""
    fields = read_text("/proc/self/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE


def others() -> int:
    """Children and threads that should not be there."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return len(os.listdir("/proc/self/task")) - 1
    return 1


def forget_closed_connections() -> None:
    """A closed connection of one run would hold its port against the next: all runs of a zygote share a network namespace."""
    child = os.fork()
    if child == 0:
        try:
            isolation.unshare(isolation.NEW_MOUNTS)
            isolation.mount_proc()
            write_text("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0")
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def read_text(path: str) -> str:
    """A whole small file. Raises OSError."""
    with open(path) as file:
        return file.read()


def write_text(path: str, text: str) -> None:
    """Write a file of the kernel's. Raises OSError."""
    with open(path, "w") as file:
        file.write(text)


def main() -> Callable[[], None]:
    """Load, say what that took, serve. Returns only in a child: what it is to run."""
    control = socket.socket(fileno=int(sys.argv[1]))
    message, descriptors, _, _ = socket.recv_fds(control, _LONGEST_MESSAGE, 1)
    told = marshal.loads(message)
    for group in descriptors:
        os.write(group, b"0")
        os.close(group)
    if told["as_root"]:
        isolation.drop_capabilities_for_good()
    forget_closed_connections()
    scripts = load_scripts(os.path.abspath(__file__))
    bare = address_space()
    preload(told["preload"], told["folders"])
    loaded_bytes, program = address_space() - bare, isolation.filter_program(told["filter"])
    gc.collect()
    gc.freeze()
    gc.disable()
    isolation.use_huge_pages()

    def child_of(descriptors: list[int]) -> Callable[[], None]:
        return command(isolated(descriptors, told["as_root"], program), scripts, loaded_bytes)

    answer(control, resident())
    return serve(control, child_of)


if __name__ == "__main__":
    child_main = main()
    exit_code = 0
    try:
        child_main()
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter's own last resort
        traceback.print_exc()
        exit_code = 1
    end(exit_code)
