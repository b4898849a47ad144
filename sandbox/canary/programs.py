r"""Reader of programs with a known verdict, which are stored as text.

A line `### family: name` begins a program. Option lines can follow it: `# tests: STATEMENTS`
(separated by `\n`) replaces the default tests, `# harmless` means that the program does no damage
without isolation, and `# audit` means that the program passes its tests and only the audit convicts
it. A program of the family `escape` runs in its own interpreter. It prints `escaped` or `held`, and
passes if it escaped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files

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
