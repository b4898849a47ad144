"""Reads programs of known verdict, which are kept as data.

A line `### family: name` begins one. Lines right below it may say `# tests: STATEMENTS` (`\\n` between them) instead of the usual
tests, `# harmless` where running it without isolation does no damage, and `# audit` where it passes plainly, so that only the
audit convicts it. An `escape` runs in an interpreter of its own. It prints `escaped` or `held`, and passes where it escaped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files

TESTS = ("assert f(1) == 4711", "assert f(2) == 4712")
"""Of a program that names none. No attack says these numbers without having found or forged them, or doing what it must not."""
_LEGITIMATE_TESTS = ("assert f() == 1",)
_ESCAPE_TESTS = ("assert f(1) == 4711, f(1)",)
_ESCAPE = """\
import subprocess, sys
done = subprocess.run([sys.executable, "-S", "-c", {code!r}], capture_output=True, text=True)
said = (done.stdout.splitlines() or done.stderr.splitlines() or ["nothing said"])[-1]
def f(x): return 4711 if said == "escaped" else said
"""


class Family(StrEnum):
    """Kinds of programs whose verdict is known: three attacks, and one that is none."""

    ESCAPE = "escape"
    """Reaches for the host: its files, processes, network, kernel."""
    FORGE = "forge"
    """Passes without doing the task."""
    EXHAUST = "exhaust"
    """Uses up what a program may use; would pass where that is not bounded."""
    LEGITIMATE = "legitimate"
    """Looks odd and does nothing wrong: `f()` is 1."""


@dataclass(frozen=True)
class Program:
    """One program with its tests."""

    family: Family
    name: str
    code: str
    tests: tuple[str, ...]
    harmless: bool = False
    """May be run without isolation."""
    for_audit: bool = False
    """Passes plainly: isolation does not hold it, the audit convicts it."""

    @property
    def must_pass(self) -> bool:
        """True for a good program, False for an attack."""
        return self.family is Family.LEGITIMATE

    @property
    def title(self) -> str:
        """Family and name, for reports."""
        return f"{self.family.value}: {self.name}"

    def with_baits(self, baits: Mapping[str, str]) -> "Program":
        """With the names of planted things filled in: `@FILE@` by the value of FILE."""
        code = self.code
        for name, value in baits.items():
            code = code.replace(f"@{name}@", value)
        return replace(self, code=code)


def read_programs(text: str) -> tuple[Program, ...]:
    """Programs of a text file, in its order.

    Raises:
        ValueError: a heading names no family, or none at all.
    """
    return tuple(_program(section) for section in f"\n{text}".split("\n### ")[1:])


def bundled_programs() -> tuple[Program, ...]:
    """The canary's own programs: a handful that takes seconds."""
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
    shown = _ESCAPE.format(code=code) if kind is Family.ESCAPE else code
    return Program(kind, name, shown, next(own, usual), "# harmless" in marks, "# audit" in marks)
