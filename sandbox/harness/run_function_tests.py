"""Run of a candidate's code and its tests in one process, with a report on each test.

The script is trusted, runs in the sandbox, and uses only the standard library. Two processes share
the work:

- The supervisor holds the report descriptor and the run's secret. It forks the program before it
  reads the secret and is not dumpable, so the program cannot read its memory and descriptors. It
  sends the tests one by one. It reports a pass only if the program reports, in turn, a pass of each
  test over a channel sealed with its own key, then ends with exit status 0 and leaves no process
  behind.
- The program runs the code as `__main__`, then requests the tests: while the code runs, neither the
  program's memory nor the disk contains the tests' text. The tests run as in plain Python,
  unobserved.

Input on stdin: secret, CPU limit, job, tests (see `sandbox.judging.judged_run`). The script needs
no fresh interpreter, but only descriptors 0 to 2 and PARLEY_REPORT_FD, so a process that was forked
for this run may call `main`, too. No class is defined in any of these modules, because a candidate
can find every class of its process, and everything reachable from it.
"""

from __future__ import annotations

import _ctypes
import os
import select
import sys
import time
from _signal import SIGKILL  # pyright: ignore[reportMissingImports]  (a built-in module: signal would import enum)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from judged_program import judge_program
from sealed_channel import (
    NOISE,
    TO_PROGRAM,
    TO_SUPERVISOR,
    fields,
    framed,
    opener,
    read_exactly,
    read_field,
    sealer,
    unpacked,
    with_ends_kept,
    write_all,
)
from together import conversation_with_children

for _name in (name.removesuffix(".py") for name in os.listdir(sys.path.pop(0))):
    # While `run_project_tests.py` imports this module, the interpreter needs it there.
    if _name != __name__:
        sys.modules.pop(_name, None)
if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    sys.path.pop(0)  # Without `-P`, which older Pythons lack, Python puts a script's folder there.

RUNS_AS_FIRST_PROCESS = True
"""Flag for `zygote/zygote.py`: `main` may run in the first process of a pid namespace, because the
candidate never runs in it."""
TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LEFTOVER_GRACE_S = 1.0
# More bytes than a pipe holds, so that a descendant that keeps writing does not delay the end.
_LAST_READS = 8
_LONGEST_DETAIL, _ALL_DETAILS = 1 << 14, 180_000
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_PIDFD_OPEN = 434
"""Number of the system call `pidfd_open`, equal on every machine."""
_KEY_BYTES = 16


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    # `_ctypes` alone: importing ctypes would cost each run a third of an interpreter's start.
    function = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # pyright: ignore[reportArgumentType]  (None: this process)
    if _ctypes.call_function(function, (option, value, 0, 0, 0)) != 0:
        raise OSError(f"prctl({option}, {value}) failed")


def watched(pid: int) -> int:
    """Return a pidfd, which becomes readable when the child ends.

    Some Pythons (conda's) are built without `os.pidfd_open`.
    """
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    function = _ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall")  # pyright: ignore[reportArgumentType]  (None: this process)
    descriptor = _ctypes.call_function(function, (_PIDFD_OPEN, pid, 0))
    if descriptor < 0:
        raise OSError(f"pidfd_open({pid}) failed")
    return descriptor


def supervise(
    program: dict[str, Any], answers: int, questions: int, report: int, key: bytes
) -> None:
    """Send the code, then the tests. Report each result and the end, with this run's secret."""
    write_all(report, b"ready\n")
    secret, cpu_s, job, tests = (read_field(0) for _ in range(4))

    def tell(*parts: bytes) -> None:
        write_all(report, fields(secret, *parts))

    if b"together" in unpacked(job)[::2]:
        ways = {"converse": conversation, "judge": judge}
        hear, state = conversation_with_children(
            answers, key, unpacked(tests), tell, float(cpu_s), ways
        )
    else:
        hear, state = conversation(answers, key, unpacked(tests), tell)
        state["end"] = lambda code, used_s, has_left_others: judge(
            code, used_s, float(cpu_s), state, has_left_others
        )
    try:
        write_all(answers, state["seal"](job))
        listen(program, questions, hear, state)
    except BrokenPipeError:
        pass  # The program ended before it read everything. `judge` decides on the outcome.
    if state["unread"] and not state["failure"]:
        state["failure"] = NOISE
    code, used_s = program["wait"]()
    tell(b"end", *state["end"](code, used_s, program["has_left_others"]))


def conversation(
    answers: int, key: bytes, tests: list[bytes], tell: Callable[..., None]
) -> tuple[Callable[[bytes], None], dict[str, Any]]:
    """Make a function that handles the program's messages, and its state.

    An unexpected message counts as tampering with the channel.

    Args:
        answers: descriptor that the program reads.
        key: key of the channel.
        tests: kind and text of the first test, then of the next, and so on.
        tell: function that writes a record to the report.
    """
    unseal, units = opener(key, TO_SUPERVISOR), [*zip(tests[::2], tests[1::2])]  # noqa: B905 - an image's Python may have no `strict`
    longest = max(100, min(_LONGEST_DETAIL, _ALL_DETAILS // max(1, len(units))))
    state: dict[str, Any] = {
        "seal": sealer(key, TO_PROGRAM),
        "unread": b"",
        "n_told": None,
        "done": False,
        "failure": None,
    }

    def take(message: bytes) -> None:
        parts, n = unpacked(unseal(message) or b""), state["n_told"]
        kind = parts[0] if parts else b""
        if kind == b"code failed" and n is None:
            state["failure"] = (b"failed", parts[1])
            if len(parts) > 2:
                tell(b"compile", b"failed", with_ends_kept(parts[2], _LONGEST_DETAIL))
        elif kind == b"code ran" and n is None:
            state["n_told"] = 0
            tell(b"code", b"passed", b"")
            ask()
        elif kind in (b"passed", b"failed") and n is not None and n < len(units):
            detail = with_ends_kept(parts[1], longest)
            tell(str(n).encode(), kind, detail)
            state["n_told"] = n + 1
            if units[n][0] == b"module" and kind == b"failed":
                state["failure"] = (b"failed", detail)
                end()
            else:
                ask()
        elif kind == b"node" and n == 0 and not units:
            tell(b"node " + parts[1], parts[2], parts[3][-2000:])
        elif kind == b"done" and n == len(units) and not state["done"]:
            state["done"] = True
        else:
            state["failure"] = NOISE

    def ask() -> None:
        n = state["n_told"]
        if n == len(units):
            end()
        else:
            write_all(answers, state["seal"](fields(*units[n])))

    def end() -> None:
        write_all(answers, state["seal"](fields(b"end", b"")))

    return framed(state, take), state


def listen(
    program: dict[str, Any], questions: int, hear: Callable[[bytes], None], state: dict[str, Any]
) -> None:
    """Listen until the program has ended, even if a descendant holds the channel open.

    Tampering ends the program at once.
    """
    ended = program["ended"]
    os.set_blocking(questions, False)
    poll = select.poll()
    poll.register(questions, select.POLLIN)
    poll.register(ended, select.POLLIN)
    running = True
    while running:
        running = ended not in {descriptor for descriptor, _ in poll.poll()}
        for _ in range(1 if running else _LAST_READS):
            try:
                data = os.read(questions, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                if running:
                    poll.unregister(questions)
                break
            hear(data)
        if running and state["failure"] is not None and state["failure"][0] == b"tampering":
            program["kill"]()
            running = False


def judge(
    code: int,
    used_s: float,
    cpu_s: float,
    state: dict[str, Any],
    has_left_others: Callable[[], bool],
) -> tuple[bytes, bytes]:
    """Return outcome and detail of the whole run, given exit status, CPU time and messages."""
    if state["failure"] is not None and state["failure"][0] == b"tampering":
        return state["failure"]
    if code == -24 or (code == -9 and used_s >= cpu_s):
        return b"timeout", f"used up its {cpu_s:g} s of CPU time".encode()
    if state["failure"] is not None:
        return state["failure"]
    ending = f"signal {-code}" if code < 0 else f"exit status {code}"
    if not state["done"]:
        return b"failed", f"ended with {ending} before its tests were through".encode()
    if code != 0:
        return b"failed", f"passed its tests, then ended with {ending}".encode()
    if stay(has_left_others):
        return b"failed", b"left a process running after its end"
    return b"passed", b""


def stay(has_left_others: Callable[[], bool]) -> bool:
    """Return True if a process that the program started outlives it.

    Processes that end by themselves get a moment to do so.
    """
    deadline = time.monotonic() + LEFTOVER_GRACE_S
    while has_left_others():
        if time.monotonic() > deadline:
            return True
        time.sleep(0.005)
    return False


def own_child(pid: int) -> dict[str, Any]:
    """Return the functions by which the supervisor controls a program that was forked here."""

    def wait() -> tuple[int, float]:
        _, status, usage = os.wait4(pid, 0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime

    def has_left_others() -> bool:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return False
        return True

    kill = os.kill
    return {
        "ended": watched(pid),
        "kill": lambda: kill(pid, SIGKILL),
        "wait": wait,
        "has_left_others": has_left_others,
    }


def run_judged(answers: int, questions: int) -> None:
    """Run as the candidate process, in a process that `start` forked (see `main`)."""
    os.environ.pop("PARLEY_REPORT_FD", None)
    judge_program(answers, questions, read_exactly(answers, _KEY_BYTES))


def main(start: Callable[[int, int, int], dict[str, Any]] | None = None) -> None:
    """Start the candidate process, and supervise it from this process.

    Args:
        start: function that makes the candidate process, which then calls `run_judged`; by default
            this process forks it. The arguments are the candidate's ends of both pipes and this
            process's writing end. The function returns a mapping as `own_child` does.
    """
    report = int(os.environ.pop("PARLEY_REPORT_FD"))
    prctl(_PR_SET_DUMPABLE, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    their_answers, answers = os.pipe()
    questions, their_questions = os.pipe()
    key = os.urandom(_KEY_BYTES)
    if start is not None:
        program = start(their_answers, their_questions, answers)
        write_all(answers, key)
    else:
        pid = os.fork()
        program = own_child(pid) if pid else None
    if program is not None:
        os.close(their_answers)
        os.close(their_questions)
        supervise(program, answers, questions, report, key)
        os._exit(0)
    for descriptor in (report, answers, questions):
        os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    judge_program(their_answers, their_questions, key)


if __name__ == "__main__":
    main()
