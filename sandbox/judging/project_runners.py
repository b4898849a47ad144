"""What Parley knows of each kind of test runner: how its command names tests, what steers it, and what its log says.

The verdict is the runner's own report, which `harness/project_runners.py` seals. The log is a cross-check: any candidate can
write a line that says `ok`, so a passing line proves nothing, but a failing line convicts a forged report.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_UNITTEST_FAILED = re.compile(
    r"^(?:.* \.\.\. )?(?P<name>\S.*?) \.\.\. (?:FAIL|ERROR)$", re.MULTILINE
)
_SYMPY_FAILED = re.compile(r"^(?P<name>test_\w+) (?:F|E)$", re.MULTILINE)
_OLD_NAME = re.compile(r"(?P<method>\w+) \((?P<place>[\w.]+)\)")


@dataclass(frozen=True)
class ProjectRunner:
    """A kind of test runner, other than pytest."""

    name_of_file: Callable[[str], str]
    """Makes the command's argument for a test file."""
    failed: re.Pattern[str]
    """A line of its log for a test that failed; the group `name` is the test's."""
    steering: str = r"(?!)"
    """Paths of files that steer it, beside those of all projects."""


def _django_label(path: str) -> str:
    return path.removesuffix(".py").removeprefix("tests/").replace("/", ".")


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


RUNNERS: Mapping[str, ProjectRunner] = {
    "django": ProjectRunner(_django_label, _UNITTEST_FAILED),
    "sympy": ProjectRunner(
        str, _SYMPY_FAILED, r"^bin/|(^|/)(runtests|pytest|randtest|quality_unicode)\.py$"
    ),
    "unittest": ProjectRunner(_module, _UNITTEST_FAILED),
}
"""Kind -> runner, as `RepoSnapshot.runner` names it."""


def command_of(runner: str, command: Sequence[str], test_files: Sequence[str]) -> tuple[str, ...]:
    """Return the command with the tests of these files."""
    return (*command, *dict.fromkeys(RUNNERS[runner].name_of_file(path) for path in test_files))


def nodes_of(runner: str, names: Sequence[str], test_files: Sequence[str]) -> dict[str, str]:
    """Return node, as pytest would name it -> the name that the runner has for it.

    A name that is a docstring's first line has no node. A name that several files of SymPy have stands for all of them.
    """
    if not runner:
        return {name: name for name in names}
    if runner == "sympy":
        return {f"{path}::{name}": name for name in names for path in test_files}
    found: dict[str, str] = {}
    for name in names:
        match = _OLD_NAME.fullmatch(name.rpartition(" ... ")[2])
        place = match["place"].removesuffix(f".{match['method']}") if match else ""
        for path in test_files:
            module = RUNNERS[runner].name_of_file(path)
            if match and place.startswith(f"{module}."):
                scope = place.removeprefix(f"{module}.").replace(".", "::")
                found[f"{path}::{scope}::{match['method']}"] = name
    return found


def failed_in_log(runner: str, log: str) -> frozenset[str]:
    """Return the names of tests that a runner's log calls failed."""
    return frozenset(match["name"] for match in RUNNERS[runner].failed.finditer(log))


def spellings(name: str) -> tuple[str, ...]:
    """Return the names that a test of a dataset may have here, its own first.

    Python 3.11 and newer print `test_x (module.Class.test_x)`, older ones `test_x (module.Class)`. A log parser that takes a line
    on which an earlier test's output stands gives `earlier ... test`.
    """
    last = name.rpartition(" ... ")[2]
    found = [name, last]
    match = _OLD_NAME.fullmatch(last)
    if match is not None:
        method, place = match["method"], match["place"]
        found += [f"{method} ({place}.{method})", f"{method} ({place.removesuffix(f'.{method}')})"]
    return tuple(dict.fromkeys(found))
