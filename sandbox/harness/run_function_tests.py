"""Runs a candidate's code and its tests as one program and reports whether the program really reached its end.

Trusted, runs inside the sandbox, standard library only. Two processes:

- the supervisor holds the report descriptor and the run's secret. It forks before it reads the secret and is not dumpable, so its
  memory and descriptors are closed to the program. It reports a pass only for a program that asked for its tests once and with
  the key, answered with the id that came with them, ended with exit status 0 and left no process behind.
- the program runs the code as `__main__`, then asks for the tests, so that neither their text nor the id are in its memory or on
  disk while the code runs. Each test statement is executed by itself, what decides a test is checked before and after, and a
  search for key, id or tests is noticed.

Input on stdin: secret, CPU limit, package folders, code, tests (see `sandbox.function_tests`).
"""

from __future__ import annotations

import _ctypes
import os
import select
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from judged_program import LONGEST_MESSAGE, as_field, read_field, run_program, write_all

del sys.path[0], sys.modules["judged_program"], sys.modules["watch"]

LEFTOVER_GRACE_S = 1.0
_LAST_READS = 8  # more than a pipe holds; a descendant that goes on writing does not keep us
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    # `_ctypes` alone: importing ctypes would cost each run a third of an interpreter's start.
    function = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # pyright: ignore[reportArgumentType]
    if _ctypes.call_function(function, (option, value, 0, 0, 0)) != 0:
        raise OSError(f"prctl({option}, {value}) failed")


class Conversation:
    """What the program has said so far; anything out of order is tampering."""

    def __init__(self, answers: int, tests: bytes, key: bytes) -> None:
        self._answers, self._tests, self._key = answers, tests, key
        self._id = os.urandom(16)
        self._unread = b""
        self._asked = False
        self.done = False
        self.failure = ""

    def hear(self, data: bytes) -> None:
        if self.failure:
            return
        self._unread += data
        while len(self._unread) >= 9 and not self.failure:
            kind, size = self._unread[:1], int.from_bytes(self._unread[1:9], "big")
            if size > LONGEST_MESSAGE:
                self.failure = "tampering: the runner's channel was written to"
            elif len(self._unread) >= 9 + size:
                body, self._unread = self._unread[9 : 9 + size], self._unread[9 + size :]
                self._take(kind, body)
            else:
                return

    def _take(self, kind: bytes, body: bytes) -> None:
        if kind == b"T" and not self._asked and not self.done and body == self._key:
            self._asked = True
            write_all(self._answers, as_field(self._id) + as_field(self._tests))
        elif kind == b"D" and self._asked and not self.done and body == self._key + self._id:
            self.done = True
        elif kind == b"F" and not self.done:
            self.failure = body.decode("utf-8", "replace") or "failed"
        else:
            self.failure = "tampering: the runner's channel was written to"

    def hang_up(self) -> None:
        if self._unread and not self.failure:
            self.failure = "tampering: the runner's channel was written to"


def supervise(program: int, answers: int, questions: int, report: int, key: bytes) -> None:
    """The trusted half: hand over code, then tests, and report how it ended under this run's secret."""
    write_all(report, b"ready\n")
    secret, cpu_s, folders, code, tests = (read_field(0) for _ in range(5))
    talk = Conversation(answers, tests, key)
    try:
        write_all(answers, as_field(folders) + as_field(code))
        listen(program, questions, talk)
    except BrokenPipeError:
        pass
    _, status, usage = os.wait4(program, 0)
    outcome, detail = judge(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, float(cpu_s), talk)
    write_all(report, as_field(secret) + as_field(outcome.encode()) + as_field(detail.encode("utf-8", "backslashreplace")))


def listen(program: int, questions: int, talk: Conversation) -> None:
    """Until the program has ended; a descendant that holds the channel open does not keep us."""
    ended = os.pidfd_open(program)
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
            talk.hear(data)
    talk.hang_up()


def judge(code: int, used_s: float, cpu_s: float, talk: Conversation) -> tuple[str, str]:
    """Outcome and detail, from exit status, CPU time and what was said in between."""
    if code == -24 or (code == -9 and used_s >= cpu_s):
        return "timeout", f"used up its {cpu_s:g} s of CPU time"
    if talk.failure:
        return "failed", talk.failure
    ending = f"signal {-code}" if code < 0 else f"exit status {code}"
    if not talk.done:
        return "failed", f"ended with {ending} before its tests were through"
    if code != 0:
        return "failed", f"passed its tests, then ended with {ending}"
    if leftover():
        return "failed", "left a process running after its end"
    return "passed", ""


def leftover() -> bool:
    """Whether a descendant outlives the program; helpers that end by themselves get a moment."""
    deadline = time.monotonic() + LEFTOVER_GRACE_S
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            if time.monotonic() > deadline:
                return True
            time.sleep(0.005)


def main() -> None:
    """Split into the judged program and its supervisor."""
    report = int(os.environ.pop("PARLEY_REPORT_FD"))
    prctl(_PR_SET_DUMPABLE, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    their_answers, answers = os.pipe()
    questions, their_questions = os.pipe()
    key = os.urandom(16)
    program = os.fork()
    if program:
        os.close(their_answers)
        os.close(their_questions)
        supervise(program, answers, questions, report, key)
        os._exit(0)
    for descriptor in (report, answers, questions):
        os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    prctl(_PR_SET_DUMPABLE, 1)
    run_program(their_answers, their_questions, key)


main()
