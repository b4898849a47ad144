r"""Run of the canary's programs in a sandbox. Each has a known verdict, and is stored as text.

A line `### family: name` begins a program. Option lines can follow it: `# tests: STATEMENTS`
(separated by `\n`) replaces the default tests, `# harmless` means that the program does no damage
without isolation, and `# audit` means that the program passes its tests and only the audit convicts
it. A program of the family `escape` runs in its own interpreter. It prints `escaped` or `held`, and
passes if it escaped. Baits for attacks on the host are real objects, so that an escape is detected.
"""

import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from sandbox.interface import Sandbox
from sandbox.judging.runners.run import run_function_tests
from schemas.run import Limits
from schemas.verdict import Outcome

TESTS = ("assert f(1) == 4711", "assert f(2) == 4712")
"""Default tests of a program. An attack returns these numbers only if it found or forged them, or
did something forbidden."""
_LEGITIMATE_TESTS = ("assert f() == 1",)
_ESCAPE_TESTS = ("assert f(1) == 4711, f(1)",)
_ESCAPE = """\
import subprocess, sys
done = subprocess.run([sys.executable, "-S", "-c", {code!r}], capture_output=True, text=True)
said = (done.stdout.splitlines() or done.stderr.splitlines() or ["nothing said"])[-1]
def f(x): return 4711 if said == "escaped" else said
"""


class Family(StrEnum):
    """Kinds of programs with a known verdict: three kinds of attacks, and correct programs."""

    ESCAPE = "escape"
    """Attack on the host: its files, processes, network or kernel."""
    FORGE = "forge"
    """Attempt to pass without doing the task."""
    EXHAUST = "exhaust"
    """Attempt to use up a limited resource. It would pass if the resource were unlimited."""
    LEGITIMATE = "legitimate"
    """Correct program that looks odd. Its function `f()` returns 1."""


@dataclass(frozen=True)
class Program:
    """Program with a known verdict, and its tests."""

    family: Family
    name: str
    code: str
    tests: tuple[str, ...]
    harmless: bool = False
    """True if the program may run without isolation."""
    for_audit: bool = False
    """True if the program passes its tests: isolation does not stop it, and the audit convicts
    it."""

    @property
    def must_pass(self) -> bool:
        """Return True for a correct program, False for an attack."""
        return self.family is Family.LEGITIMATE

    @property
    def title(self) -> str:
        """Return family and name, for reports."""
        return f"{self.family.value}: {self.name}"

    def with_baits(self, baits: Mapping[str, str]) -> "Program":
        """Return the program with the baits' values, such as FILE's value instead of `@FILE@`."""
        code = self.code
        for name, value in baits.items():
            code = code.replace(f"@{name}@", value)
        return replace(self, code=code)


def read_programs(text: str) -> tuple[Program, ...]:
    """Return the programs of a text, in its order.

    Raises:
        ValueError: a heading has no family, or an unknown one.
    """
    return tuple(_program(section) for section in f"\n{text}".split("\n### ")[1:])


def bundled_programs() -> tuple[Program, ...]:
    """Return the bundled programs of the canary, which take a few seconds together."""
    return read_programs(
        files("sandbox.canary").joinpath("programs.txt").read_text(encoding="utf-8")
    )


def _program(section: str) -> Program:
    heading, _, code = section.partition("\n")
    family, _, name = heading.partition(": ")
    marks: list[str] = []
    while code.startswith(("# tests: ", "# harmless\n", "# audit\n")):
        line, _, code = code.partition("\n")
        marks.append(line)
    kind = Family(family)
    usual = {Family.ESCAPE: _ESCAPE_TESTS, Family.LEGITIMATE: _LEGITIMATE_TESTS}.get(kind, TESTS)
    own = (
        tuple(line.removeprefix("# tests: ").split("\\n"))
        for line in marks
        if line.startswith("# tests: ")
    )
    code = code.strip("\n") + "\n"
    source = _ESCAPE.format(code=code) if kind is Family.ESCAPE else code
    return Program(kind, name, source, next(own, usual), "# harmless" in marks, "# audit" in marks)


_AT_ONCE = 8
"""Number of threads. The sandbox's slots decide how many programs actually run at once."""
_ATTACKED = Limits(cpu_s=1.0, wall_s=10.0, memory_mb=512)
_HONEST = Limits(cpu_s=10.0, wall_s=60.0)
"""Limits of correct programs (golds), which must pass even on a machine under load."""


@dataclass(frozen=True)
class Canary:
    """Result of a run of the canary."""

    n_attacks: int
    n_golds: int
    passed: tuple[str, ...]
    """Titles of attacks that passed."""
    failed: tuple[str, ...]
    """Titles of correct programs (golds) that did not pass, each with its verdict."""

    @property
    def is_alive(self) -> bool:
        """Return True if every program had its expected verdict."""
        return not self.passed and not self.failed


def release_canary(sandbox: Sandbox, programs: Sequence[Program] | None = None) -> Canary:
    """Run the canary's programs, several at the same time. This takes seconds.

    Args:
        sandbox: sandbox to test.
        programs: programs to run; by default the bundled ones. A sandbox that does not isolate runs
            only those that can do no damage.

    Raises:
        SandboxUnavailable: a program could not run at all, so no verdict is known.
    """
    selected = bundled_programs() if programs is None else tuple(programs)
    if not sandbox.isolated:
        selected = tuple(
            p for p in selected if p.must_pass or (p.harmless and p.family is not Family.ESCAPE)
        )
    with planted_baits() as baits, ThreadPoolExecutor(_AT_ONCE) as threads:
        verdicts = list(
            threads.map(lambda program: _verdict(sandbox, program.with_baits(baits)), selected)
        )
    pairs = list(zip(selected, verdicts, strict=True))
    return Canary(
        n_attacks=sum(not program.must_pass for program in selected),
        n_golds=sum(program.must_pass for program in selected),
        passed=tuple(
            program.title
            for program, (outcome, _) in pairs
            if not program.must_pass and outcome is Outcome.PASSED
        ),
        failed=tuple(
            f"{program.title} ({outcome.value}: {detail[-200:].strip()})"
            for program, (outcome, detail) in pairs
            if program.must_pass and outcome is not Outcome.PASSED
        ),
    )


def _verdict(sandbox: Sandbox, program: Program) -> tuple[Outcome, str]:
    verdict = run_function_tests(
        sandbox, program.code, program.tests, _HONEST if program.must_pass else _ATTACKED
    )
    return verdict.outcome, verdict.detail


_HOLDER = "import os, sys, time; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"


@contextmanager
def planted_baits() -> Iterator[Mapping[str, str]]:
    """Create baits for the duration of the block, and yield values for `Program.with_baits`.

    FILE: a file that every user may read and write. FOLDER: the folder of FILE, writable for every
    user. SENTINEL: content of FILE, and value of a variable in the environment of process PID.
    PORT: a listening TCP port on loopback. SOCKET: the name of a listening abstract socket. MARK: a
    word that attacks put into the names of files that they create.
    """
    sentinel = secrets.token_hex(8)
    with (
        tempfile.TemporaryDirectory(prefix="parley-bait-") as folder,
        socket.create_server(("127.0.0.1", 0), backlog=64) as tcp,
        socket.socket(socket.AF_UNIX) as local,
        _process({"PARLEY_BAIT": sentinel}) as process,
    ):
        os.chmod(folder, 0o777)
        file = Path(folder) / "bait"
        file.write_text(sentinel)
        os.chmod(file, 0o666)
        name = f"parley-bait-{sentinel}"
        if sys.platform == "linux":
            local.bind(f"\0{name}")
            local.listen(64)
        yield {
            "FILE": str(file),
            "FOLDER": folder,
            "SENTINEL": sentinel,
            "PORT": str(tcp.getsockname()[1]),
            "SOCKET": name,
            "PID": str(process.pid),
            "MARK": f"parley-attack-{sentinel}",
        }


@contextmanager
def _process(environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-S", "-c", _HOLDER]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        process.stdout.read(1)  # The process has started and has its environment.
        yield process
    finally:
        process.kill()
        process.communicate()
