"""Conformance cases that every sandbox must pass, built-in or third-party.

for case in CASES:
    print(case.name, case.violation(load("bubblewrap")) or "holds")
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox import conformance_escapes as escapes
from sandbox.interface import Completed, Sandbox
from schemas.errors import SandboxUnavailable
from schemas.run import Limits

LIMITS = Limits(
    cpu_s=1,
    wall_s=10,
    memory_mb=512,
    processes=16,
    file_mb=4,
    tmp_mb=16,
    open_files=32,
    output_kb=4,
)
MIB = 1024 * 1024


@dataclass(frozen=True)
class Case:
    """One requirement of a sandbox."""

    name: str
    violation: Callable[[Sandbox], str]
    """Function that runs programs and returns the description of the sandbox's violation, or an
    empty text. It raises SandboxUnavailable if the sandbox cannot run programs at all."""


def run(
    sandbox: Sandbox, program: str, *, stdin: bytes = b"", limits: Limits = LIMITS
) -> Completed:
    """Run one Python program in a new session."""
    with sandbox.session(limits) as session:
        return session.run(("{python}", "-c", program), stdin=stdin)


def _printing(program: str, expected: bytes, *, stdin: bytes = b"") -> Callable[[Sandbox], str]:
    def check(sandbox: Sandbox) -> str:
        done = run(sandbox, program, stdin=stdin)
        return "" if done.exit_code == 0 and done.stdout == expected else _describe(done)

    return check


def _ending(
    program: str, expected: Callable[[Completed], bool], limits: Limits = LIMITS
) -> Callable[[Sandbox], str]:
    def check(sandbox: Sandbox) -> str:
        done = run(sandbox, program, limits=limits)
        return "" if expected(done) else _describe(done)

    return check


def _prints_held(program: str) -> Callable[[Sandbox], str]:
    """Return a check that an attack prints `held`: the sandbox resisted it."""
    return _printing(program, b"held\n")


def _describe(done: Completed) -> str:
    return (
        f"exit {done.exit_code}, signal {done.signal}, timed out {done.timed_out}, "
        f"after {done.wall_s:.1f} s, "
        f"stdout {done.stdout[-200:]!r}, stderr {done.stderr[-200:]!r}"
    )


def _files_are_delivered(sandbox: Sandbox) -> str:
    content = bytes(range(256)) * 300
    with sandbox.session(LIMITS) as session:
        reading = (
            "import hashlib; print(hashlib.sha256(open('a/b c.bin', 'rb').read()).hexdigest()); "
            "open('a/b c.bin', 'w')"
        )
        done = session.run(("{python}", "-c", reading), files={"a/b c.bin": content, "empty": b""})
    return (
        ""
        if done.stdout.decode().strip() == hashlib.sha256(content).hexdigest()
        and done.exit_code == 0
        else _describe(done)
    )


def _file_names_stay_inside(sandbox: Sandbox) -> str:
    for name in ("/etc/x", "../x", "a/../../x", "", "a\0b"):
        try:
            with sandbox.session(LIMITS) as session:
                session.run(("{python}", "-c", "pass"), files={name: b""})
        except ValueError:  # The sandbox must refuse the name.
            continue
        return f"accepted the file name {name!r}"
    return ""


def _each_command_starts_clean(sandbox: Sandbox) -> str:
    with sandbox.session(LIMITS) as session:
        session.run(
            ("{python}", "-c", "open('left', 'w'); open('/tmp/left-by-parley', 'w')"),
            files={"given": b""},
        )
        done = session.run(
            (
                "{python}",
                "-c",
                "import os; print(os.listdir('.'), os.path.exists('/tmp/left-by-parley'))",
            )
        )
    with suppress(OSError):
        os.unlink("/tmp/left-by-parley")
    return "" if done.stdout == b"[] False\n" else _describe(done)


def _kept_files_last(sandbox: Sandbox) -> str:
    with sandbox.session(LIMITS, keep_files=True) as session:
        session.run(("{python}", "-c", "open('kept', 'w').write('1')"), files={"given": b"2"})
        done = session.run(
            ("{python}", "-c", "print(open('kept').read() + open('given').read())"),
            files={"given": b"3"},
        )
    with sandbox.session(LIMITS, keep_files=True) as session:
        other = session.run(("{python}", "-c", "import os; print(os.listdir('.'))"))
    return (
        ""
        if (done.stdout, other.stdout) == (b"13\n", b"[]\n")
        else _describe(done) + _describe(other)
    )


def _links_do_not_lead_out(sandbox: Sandbox) -> str:
    """Check that planted links do not lead files, which are delivered later, out of the sandbox."""
    target = Path(f"/tmp/parley-planted-{secrets.token_hex(8)}")
    with sandbox.session(LIMITS, keep_files=True) as session:
        planting = (
            f"import os; os.symlink('{target.parent}', 'd'); os.symlink('{target}', 'f'); "
            "os.symlink('../oldroot/tmp', 'o')"
        )
        session.run(("{python}", "-c", planting))
        with suppress(SandboxUnavailable):
            session.run(
                ("{python}", "-c", "pass"),
                files={f"d/{target.name}": b"1", "f": b"1", f"o/{target.name}": b"1"},
            )
    try:
        return f"wrote {target} on the host" if target.exists() else ""
    finally:
        target.unlink(missing_ok=True)


def _missing_command_is_a_result(sandbox: Sandbox) -> str:
    with sandbox.session(LIMITS) as session:
        done = session.run(("/no/such/command",))
    return "" if done.exit_code == 127 else _describe(done)


def _nothing_outlives_the_run(sandbox: Sandbox) -> str:
    mark = f"parley-mark-{secrets.token_hex(8)}"
    program = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)", "{mark}"],
                 start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                 stderr=subprocess.DEVNULL)
print("started")
"""
    done = run(sandbox, program)
    if done.stdout != b"started\n":
        return _describe(done)
    time.sleep(0.05)
    return escapes.end_marked(mark)


_FLOOD = "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)"
_IGNORING = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
_FORKS = """
import os, time
n = 0
try:
    for _ in range(64):
        if os.fork() == 0:
            time.sleep(5); os._exit(0)
        n += 1
except OSError:
    pass
print("held" if n < 16 else n, flush=True)
os.killpg(0, 9) if os.getpid() != 1 and n >= 16 else None
"""
_FILL = """
import os
def fill(folder, limit):
    mine, size = [], 0
    try:
        for i in range(limit):
            mine.append(f"{folder}/parley-fill-{os.getpid()}-{i}")
            with open(mine[-1], "wb") as file:
                file.write(bytes(1 << 20)); size += 1
    except OSError:
        pass
    for name in mine:
        os.path.exists(name) and os.unlink(name)
    return size
sizes = [fill(folder, 40) for folder in (".", "/tmp", "/dev/shm")]
print("held" if max(sizes) <= 16 else sizes)
"""

CASES: tuple[Case, ...] = (
    Case(
        "exit_code_is_kept",
        _ending("import sys; sys.exit(7)", lambda d: d.exit_code == 7 and not d.timed_out),
    ),
    Case(
        "signal_is_reported",
        _ending("import os; os.kill(os.getpid(), 9)", lambda d: d.signal == 9 and not d.timed_out),
    ),
    Case(
        "streams_are_apart",
        _ending(
            "import sys; print(1); sys.stderr.write('2')",
            lambda d: (d.stdout, d.stderr) == (b"1\n", b"2"),
        ),
    ),
    Case(
        "stdin_is_given_then_ends",
        _printing("import sys; print(len(sys.stdin.read()))", b"200000\n", stdin=b"a" * 200000),
    ),
    Case(
        "stdin_is_empty_otherwise", _printing("import sys; print(repr(sys.stdin.read()))", b"''\n")
    ),
    Case(
        "report_is_read",
        _ending(
            "import os; os.write(int(os.environ['PARLEY_REPORT_FD']), b'r')",
            lambda d: d.report == b"r",
        ),
    ),
    Case("files_are_delivered", _files_are_delivered),
    Case("file_names_stay_inside", _file_names_stay_inside),
    Case(
        "directory_is_empty_and_writable",
        _printing("import os; print(os.listdir()); open('temp.py', 'w')", b"[]\n"),
    ),
    Case("each_command_starts_clean", _each_command_starts_clean),
    Case("kept_files_last", _kept_files_last),
    Case("links_do_not_lead_out", _links_do_not_lead_out),
    Case("packages_import", _printing("import numpy; print(numpy.arange(3).sum())", b"3\n")),
    Case(
        "python_subprocess_runs",
        _printing("import subprocess as s, sys; s.run([sys.executable, '-c', 'print(1)'])", b"1\n"),
    ),
    Case("missing_command_is_a_result", _missing_command_is_a_result),
    Case(
        "cpu_time_is_limited",
        _ending("while True: pass", lambda d: d.timed_out and not d.exit_code),
    ),
    Case("cpu_limit_cannot_be_ignored", _ending(_IGNORING, lambda d: d.timed_out)),
    Case(
        "wall_time_is_limited",
        _ending(
            "import time; time.sleep(60)",
            lambda d: d.timed_out and d.wall_s < 5,
            LIMITS.model_copy(update={"wall_s": 1.0}),
        ),
    ),
    Case(
        "memory_is_limited",
        _ending("bytearray(2 << 30)", lambda d: d.exit_code == 1 and b"MemoryError" in d.stderr),
    ),
    Case(
        "file_size_is_limited",
        _prints_held("try: open('f', 'wb').write(bytes(8 << 20))\nexcept OSError: print('held')"),
    ),
    Case("scratch_space_is_limited", _prints_held(_FILL)),
    Case(
        "output_is_bounded",
        _ending(_FLOOD, lambda d: d.timed_out and max(len(d.stdout), len(d.stderr)) < 3 * 4096),
    ),
    Case("processes_are_limited", _ending(_FORKS, lambda d: d.stdout == b"held\n")),
    Case(
        "open_files_are_limited",
        _prints_held("try: f = [open('f', 'w') for _ in range(64)]\nexcept OSError: print('held')"),
    ),
    Case("nothing_outlives_the_run", _nothing_outlives_the_run),
    *(Case(name, check) for name, check in escapes.checks(_prints_held).items()),
)
