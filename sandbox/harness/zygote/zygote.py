"""Zygote: a Python process in bubblewrap that forks an isolated child for each run.

Modules are loaded only once, before the first run. The zygote is trusted, and uses only the
standard library. It gets no input of a run: everything that a run needs comes through descriptors
that only its child reads, so no child finds the input of an earlier run in memory. The zygote
handles one run at a time, and ends when the socket of its driver (the Parley process) closes. This
module defines no class, because a candidate can find every class of its process, and everything
reachable from it.

A child is the first process of a pid namespace, so its death ends the whole run. A script of the
folder above with `RUNS_AS_FIRST_PROCESS` runs in this first process. Any other command runs in a
child of it. Large preloaded libraries are in the process `loaded_process.py`, which forks the
candidate process of such a script. So this process and its forks stay small.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import sys
import traceback
import types
from functools import partial

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import child_isolation as isolation
import loaded_process
from warm_interpreter import (
    address_space,
    as_interpreter,
    end,
    load_scripts,
    others,
    place_descriptors,
    preload,
    resident,
    settle,
)

_HARNESS = sys.path[1]
del sys.path[:2]
for _name in (
    "child_isolation",
    "fork_memory",
    "loaded_process",
    "sealed_channel",
    "warm_interpreter",
):
    del sys.modules[_name]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

SCRIPT_FLAGS = ("-S", "-s", "-P")
"""Flags of this interpreter. A script of the folder above may run in a fork, instead of a fresh
interpreter, only if the command has the same flags.
"""
_REPORT_FD = 3
_LONGEST_MESSAGE = 1 << 16
_RUN_DESCRIPTORS = 6
_SMALL = 8 << 20
"""Maximum bytes of libraries that this process loads itself. Larger ones would slow each fork more
than a second process does.
"""
_LARGE, _LIGHT = b"large", b"light"
_UNPACKING_FAILED, _NOT_FOUND, _NOT_EXECUTABLE = 73, 127, 126


def serve(
    control: socket.socket,
    loaded: socket.socket | None,
    shown: tuple[str, ...],
    child_of: Callable[[list[int]], Callable[[], None]],
) -> Callable[[], None]:
    """Handle requests until the driver has ended.

    The function returns only in a child. It returns the next step as a function, so that nothing of
    this module is on the stack when the step runs.
    """
    own_pids, traffic = (
        os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC),
        isolation.fresh_network(),
    )
    poll, channels = select.poll(), (control, loaded) if loaded is not None else (control,)
    for channel in channels:
        poll.register(channel, select.POLLIN)
    while True:
        # The process with the libraries sends nothing unasked, so it has ended.
        if {descriptor for descriptor, _ in poll.poll()} != {control.fileno()}:
            os._exit(1)
        message, descriptors, _, _ = socket.recv_fds(control, _LONGEST_MESSAGE, _RUN_DESCRIPTORS)
        if not message:
            os._exit(0)
        order, size = marshal.loads(message)
        if order != "run":
            answer(control, keep_directory(order, size, shown))
            continue
        isolation.unshare(isolation.NEW_PIDS)
        child = os.fork()
        if child == 0:
            for channel in channels:
                # The descriptor's number is soon used for another file, which closing this object
                # must not close.
                channel.detach()
            return child_of(descriptors)
        isolation.enter(own_pids, isolation.NEW_PIDS)
        wait_for(control, loaded, child, descriptors)
        # In the same namespace the next run would see this run's counters, and find its ports in
        # use.
        if isolation.traffic() != traffic:
            traffic = isolation.fresh_network()


def wait_for(
    control: socket.socket, loaded: socket.socket | None, child: int, descriptors: list[int]
) -> None:
    """Send the driver the child's pidfd, then the child's exit status and the zygote's state.

    The state (memory in use, unexpected processes) is that of this process and of the process with
    the preloaded libraries.
    """
    for descriptor in descriptors:
        os.close(descriptor)
    ended = os.pidfd_open(child)
    answer(control, "running", (ended,))
    os.close(ended)
    _, status, usage = os.wait4(child, 0)
    there = loaded_process.state(loaded) if loaded is not None else (0, 0, 0.0)
    used_s = usage.ru_utime + usage.ru_stime + there[2]
    answer(
        control,
        (os.waitstatus_to_exitcode(status), used_s, resident() + there[0], others() + there[1]),
    )


def answer(control: socket.socket, value: Any, descriptors: tuple[int, ...] = ()) -> None:
    """Send a value to the driver, with descriptors."""
    socket.send_fds(control, [marshal.dumps(value)], descriptors)


def keep_directory(order: str, size: int, shown: tuple[str, ...]) -> str:
    """Let the next children share one working directory, or give each its own directory again.

    Returns:
        The error's text, or an empty text.
    """
    try:
        if order == "keep":
            isolation.mount_scratch((isolation.WORKING_DIRECTORY,), size, shown)
        else:
            isolation.unmount(isolation.WORKING_DIRECTORY)
    except OSError as error:
        return str(error)
    return ""


def isolated(
    descriptors: list[int],
    as_root: bool,
    loaded: tuple[int, ...],
    shown: tuple[str, ...],
    system_calls: tuple[Any, Any],
) -> dict[str, Any]:
    """Isolate the child, write the run's files, and return the request.

    If a step fails, report that through the status descriptor.

    Args:
        descriptors: descriptors of the run.
        as_root: True if this process is root on the host.
        loaded: descriptor of the channel to the process with the libraries, if there is one. The
            request then contains its new number as `loaded`, and descriptors of this child's
            namespaces as `namespaces`.
        shown: see `mount_scratch`.
        system_calls: the system-call filter.
    """
    status = -1
    try:
        request_fd, status, *high_descriptors = place_descriptors(
            descriptors[:4], (*descriptors[4:], *loaded)
        )
        request = marshal.loads(isolation.read_all(request_fd))
        os.setsid()
        os.nice(request["niceness"])
        isolation.die_first()
        isolation.fresh_places(request["tmp_bytes"], request["keeps_directory"], shown)
        request |= {
            "loaded": high_descriptors,
            "namespaces": isolation.own_namespaces() if loaded else (),
        }
        isolation.become(request["uid"], as_root)
        isolation.load_filter(system_calls)
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


def command(
    request: dict[str, Any], scripts: dict[str, types.ModuleType], loaded_bytes: int
) -> Callable[[], None]:
    """Become the command's process: execute the command, or return the script's `main`.

    Args:
        request: request of the run.
        scripts: scripts by path.
        loaded_bytes: address space of the modules preloaded here, which does not count against the
            run's.
    """
    argv, limits, first = request["argv"], request["limits"], len(SCRIPT_FLAGS) + 1
    script = (
        scripts.get(argv[first]) if len(argv) > first and argv[1:first] == SCRIPT_FLAGS else None
    )
    if (
        script is None
        or argv[0] != sys.executable
        or not getattr(script, "RUNS_AS_FIRST_PROCESS", False)
    ):
        for descriptor in (*request["loaded"], *request["namespaces"]):
            os.close(descriptor)
        stay_first()
    if script is None or argv[0] != sys.executable:
        execute(argv, limits)
    program_request = {
        "argv": argv[first:],
        **{name: request[name] for name in ("limits", "niceness", "uid")},
    }
    as_interpreter(script, argv[first:])
    isolation.show_memory_to_own_user()
    isolation.set_limits({**limits, "as": tuple(bound + loaded_bytes for bound in limits["as"])})
    if request["loaded"] and script.RUNS_AS_FIRST_PROCESS:
        return partial(
            script.main,
            loaded_process.starter(request["loaded"][0], request["namespaces"], program_request),
        )
    return script.main


def stay_first() -> None:
    """Fork, and return in the child. The first process of the pid namespace stays here.

    It adopts orphans, and ends with the child's exit status.
    """
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


def execute(argv: tuple[str, ...], limits: dict[str, tuple[int, int]]) -> NoReturn:
    """Replace this process by a new program."""
    try:
        # Python ignores these signals. Without a reset, programs would ignore them, too.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        isolation.set_limits(limits)
        os.execvp(argv[0], argv)
    except FileNotFoundError:
        os.write(2, f"{argv[0]}: not found\n".encode())
        os._exit(_NOT_FOUND)
    except (OSError, ValueError) as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
        os._exit(_NOT_EXECUTABLE)


def main() -> Callable[[], None]:
    """Load modules, report the memory in use, and serve.

    The function returns only in a child. It returns the next step as a function.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    message, descriptors, _, _ = socket.recv_fds(control, _LONGEST_MESSAGE, 1)
    set_up = marshal.loads(message)
    for group in descriptors:
        os.write(group, b"0")
        os.close(group)
    as_root = set_up["as_root"]
    if as_root:
        isolation.drop_capabilities_for_good()
    scripts, system_calls = (
        load_scripts(_HARNESS),
        isolation.filter_program(set_up["filter"]),
    )
    bare = address_space()
    preload(set_up["always"], set_up["folders"])
    loaded = None
    if set_up["preload"]:
        loaded, end_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if loaded_process.fork_detached():
            control.close()
            loaded.close()
            before = resident()
            preload(set_up["preload"], set_up["folders"])
            is_large = resident() - before > _SMALL
            end_there.send(_LARGE if is_large else _LIGHT)
            if not is_large:
                os._exit(0)
            settle()
            loaded_there = address_space() - bare
            return loaded_process.serve(
                end_there,
                lambda received: loaded_process.program(
                    received, scripts, as_root, loaded_there, system_calls
                ),
            )
        end_there.close()
        if loaded.recv(len(_LIGHT)) == _LIGHT:
            loaded.close()
            loaded = None
            preload(set_up["preload"], set_up["folders"])
    settle()
    loaded_here, shown = address_space() - bare, isolation.hidden_by_scratch(set_up["roots"])
    channel = (loaded.fileno(),) if loaded is not None else ()

    def child_of(received: list[int]) -> Callable[[], None]:
        return command(
            isolated(received, as_root, channel, shown, system_calls),
            scripts,
            loaded_here,
        )

    there = loaded_process.state(loaded)[0] if loaded is not None else 0
    answer(control, resident() + there)
    del message, set_up  # Otherwise each child would free them, and copy pages for that.
    return serve(control, loaded, shown, child_of)


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
