"""Process with the preloaded libraries, from which the candidate process of each run is forked.

A run's first process is a fork of the small process `zygote.py`. It requests one fork of this
process, which costs many times as much because of the libraries. It sends only descriptors: of its
namespaces, which the new child joins, and of pipes. Only the child reads its orders, from one of
the pipes. As for `zygote.py`, the module is trusted, uses only the standard library, defines no
class, and handles one run at a time.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
from functools import partial

import child_isolation as isolation
from sealed_channel import (  # pyright: ignore[reportMissingImports]  (a script of the folder above)
    fields,
    read_field,
    write_all,
)
from warm_interpreter import as_interpreter, others, place_descriptors, resident

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Mapping
    from typing import Any

_LONGEST_MESSAGE = 1 << 12
_DESCRIPTORS = 9
_ANSWERS, _QUESTIONS = 3, 4
_RUN, _STATE = b"run", b"state"


def fork_detached() -> bool:
    """Fork, and return True in the new process.

    The new process is a grandchild, so that the zygote has no other children than runs.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    if os.fork():
        os._exit(0)
    return True


def state(loaded: socket.socket) -> tuple[int, int, float]:
    """Return the facts that the process with the libraries reports to the zygote.

    These are its memory, its number of unexpected children and threads, and the CPU seconds of
    candidate processes since the last request. The function is called in the zygote, which ends if
    there is no answer.
    """
    try:
        loaded.send(_STATE)
    except OSError:
        os._exit(1)
    message = loaded.recv(_LONGEST_MESSAGE)
    if not message:
        os._exit(1)
    return marshal.loads(message)


def serve(
    control: socket.socket, program_of: Callable[[list[int]], Callable[[], None]]
) -> Callable[[], None]:
    """Handle requests until the zygote has ended.

    The function returns only in a child. It returns the next step as a function, so that nothing of
    this module is on the stack when the step runs.
    """
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    used_s = 0.0
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, _LONGEST_MESSAGE, _DESCRIPTORS)
        if not message:
            os._exit(0)
        if message == _STATE:
            control.send(marshal.dumps((resident(), others(), used_s)))
            used_s = 0.0
            continue
        try:
            child = forked_into(descriptors[-1], own_pids)
        except OSError as error:  # The run's first process was killed.
            child = -1
            tell(descriptors[-2], ("fault", f"fork: {error}"))
        if child == 0:
            # The descriptor's number is soon used for another file, which closing this object must
            # not close.
            control.detach()
            return program_of(descriptors)
        used_s += wait_for(child, descriptors)


def forked_into(namespace: int, own: int) -> int:
    """Fork a child into a pid namespace. This process then returns to its own pid namespace.

    Raises:
        OSError: the namespace cannot be joined, or the fork fails.
    """
    isolation.enter(namespace, isolation.NEW_PIDS)
    try:
        child = os.fork()
    except OSError:
        isolation.enter(own, isolation.NEW_PIDS)
        raise
    if child:
        isolation.enter(own, isolation.NEW_PIDS)
    return child


def wait_for(child: int, descriptors: list[int]) -> float:
    """Report the child's pidfd, then how it ended, and return its CPU seconds.

    Siblings that the child created (with CLONE_PARENT) end with the run, too.
    """
    reply, used_s = descriptors[-2], 0.0
    if child > 0:
        ended = os.pidfd_open(child)
        tell(reply, ("forked", ""), (ended,))
        os.close(ended)
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        used_s += usage.ru_utime + usage.ru_stime
        if pid == child:
            tell(
                reply,
                ("ended", (os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)),
            )
    for descriptor in descriptors:
        os.close(descriptor)
    return used_s


def tell(reply: int, message: tuple[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Send a message to the run's first process, if it still exists."""
    channel = socket.socket(fileno=reply)
    try:
        socket.send_fds(channel, [marshal.dumps(message)], descriptors)
    except OSError:
        pass  # The first process was killed with its run, so no process is left to notify.
    finally:
        channel.detach()


def program(
    descriptors: list[int],
    scripts: Mapping[str, types.ModuleType],
    as_root: bool,
    loaded_bytes: int,
    system_calls: tuple[Any, Any],
) -> Callable[[], None]:
    """Join the run in the child, give up every privilege, and return `run_judged`.

    The caller then calls that function of the script.

    Args:
        descriptors: descriptors of the run.
        scripts: scripts by path.
        as_root: True if this process is root on the host.
        loaded_bytes: address space of the preloaded libraries, which does not count against the
            run's.
        system_calls: the system-call filter.
    """
    stdout, stderr, answers, questions, ipc, mounts, network, reply, _ = descriptors
    try:
        request = marshal.loads(read_field(answers))
        script, limits = scripts[request["argv"][0]], request["limits"]
        os.setsid()
        os.nice(request["niceness"])
        isolation.die_first()
        isolation.enter(mounts, isolation.NEW_MOUNTS)
        isolation.enter(ipc, isolation.NEW_IPC)
        isolation.enter(network, isolation.NEW_NETWORK)
        os.chdir(isolation.WORKING_DIRECTORY)
        nothing = os.open(os.devnull, os.O_RDONLY)
        (reply,) = place_descriptors((nothing, stdout, stderr, answers, questions), (reply,))
        for descriptor in (_ANSWERS, _QUESTIONS):
            os.set_inheritable(descriptor, False)
        isolation.become(request["uid"], as_root)
        isolation.die_with_parent()
        as_interpreter(script, request["argv"])
        limits["as"] = tuple(bound + loaded_bytes for bound in limits["as"])
        isolation.set_limits(limits)
        isolation.load_filter(system_calls)
        tell(reply, ("ready", ""))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the first process is told
        tell(reply, ("fault", f"{type(error).__name__}: {error}"))
        os._exit(1)
    os.close(reply)
    return partial(script.run_judged, _ANSWERS, _QUESTIONS)


def starter(
    loaded: int, namespaces: tuple[int, ...], request: Mapping[str, Any]
) -> Callable[[int, int, int], dict[str, Any]]:
    """Make the function that starts the candidate process, in a run's first process.

    Args:
        loaded: descriptor of the channel to the process with the libraries.
        namespaces: see `child_isolation.own_namespaces`.
        request: request of the program: argv, limits, niceness, uid.
    """

    def start(answers: int, questions: int, to_program: int) -> dict[str, Any]:
        reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        *others, pids = namespaces
        with theirs, socket.socket(fileno=loaded) as channel:
            socket.send_fds(
                channel, [_RUN], (1, 2, answers, questions, *others, theirs.fileno(), pids)
            )
        for descriptor in namespaces:
            os.close(descriptor)
        write_all(to_program, fields(marshal.dumps(dict(request))))
        is_ready, pidfds = False, []
        while not (is_ready and pidfds):
            kind, detail, received = hear(reply)
            if kind not in ("forked", "ready") or bool(received) is not (kind == "forked"):
                raise OSError(f"the program could not be isolated: {kind} {detail}")
            is_ready, pidfds = is_ready or kind == "ready", pidfds + received
        return {
            "ended": pidfds[0],
            "kill": partial(kill, pidfds[0]),
            "wait": lambda: hear(reply)[1],
            "has_left_others": has_left_others,
        }

    return start


def kill(program: int) -> None:
    """Kill a program by its pidfd, unless it has already ended."""
    try:
        signal.pidfd_send_signal(program, signal.SIGKILL)
    except ProcessLookupError:
        return


def hear(reply: socket.socket) -> tuple[str, Any, list[int]]:
    """Receive a message about the program from the process with the libraries, or from the program.

    Raises:
        OSError: the process with the libraries has ended.
    """
    message, received, _, _ = socket.recv_fds(reply, _LONGEST_MESSAGE, 1)
    if not message:
        raise OSError("the process with the preloaded libraries has ended")
    return (*marshal.loads(message), received)


def has_left_others() -> bool:
    """Return True if another process is in this pid namespace, child or not.

    The function is called in the first process of the namespace.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        pass  # This process has no children left.
    try:
        os.kill(-1, 0)
    except ProcessLookupError:
        return False
    return True
