"""Kinds of test runners: how a command names tests, which files control it, and its log.

The verdict is the runner's own report, which `harness/project_runners.py` seals. The log is a
cross-check: any candidate can write a line that says `ok`, so a passing line proves nothing, but a
failing line convicts a forged report.
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
    """Kind of test runner other than pytest."""

    name_of_file: Callable[[str], str]
    """Function that returns the command's argument for a test file."""
    failed: re.Pattern[str]
    """Pattern of a log line of a failed test. The group `name` is the test's name."""
    steering: str = r"(?!)"
    """Paths of files that control this runner, beside those of all projects."""


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
"""Kind -> runner, as in `RepoSnapshot.runner`."""


def command_of(runner: str, command: Sequence[str], test_files: Sequence[str]) -> tuple[str, ...]:
    """Return the command with the tests of these files."""
    return (*command, *dict.fromkeys(RUNNERS[runner].name_of_file(path) for path in test_files))


def nodes_of(runner: str, names: Sequence[str], test_files: Sequence[str]) -> dict[str, str]:
    """Map node ids in pytest's form to the runner's own names.

    A name that is a docstring's first line has no node. In SymPy, a name that occurs in several
    files stands for all of them.
    """
    if not runner:
        return {name: name for name in names}
    if runner == "sympy":
        return {f"{path}::{name}": name for name in names for path in test_files}
    nodes: dict[str, str] = {}
    for name in names:
        match = _OLD_NAME.fullmatch(name.rpartition(" ... ")[2])
        place = match["place"].removesuffix(f".{match['method']}") if match else ""
        for path in test_files:
            module = RUNNERS[runner].name_of_file(path)
            if match and place.startswith(f"{module}."):
                scope = place.removeprefix(f"{module}.").replace(".", "::")
                nodes[f"{path}::{scope}::{match['method']}"] = name
    return nodes


def failed_in_log(runner: str, log: str) -> frozenset[str]:
    """Return the names of tests that a runner's log calls failed."""
    return frozenset(match["name"] for match in RUNNERS[runner].failed.finditer(log))


def spellings(name: str) -> tuple[str, ...]:
    """Return the names that a test of a dataset may have here, its own first.

    Python 3.11 and newer print `test_x (module.Class.test_x)`, older ones `test_x (module.Class)`.
    If a line contains an earlier test's output, a log parser returns `earlier ... test`.
    """
    last = name.rpartition(" ... ")[2]
    names = [name, last]
    match = _OLD_NAME.fullmatch(last)
    if match is not None:
        method, place = match["method"], match["place"]
        names += [f"{method} ({place}.{method})", f"{method} ({place.removesuffix(f'.{method}')})"]
    return tuple(dict.fromkeys(names))
