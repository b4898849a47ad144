"""Kinds of test runners: how their commands name tests, which files control them, and their logs.

The verdict is the runner's own report, which `harness/project_runners.py` seals. The log is a
cross-check. A candidate can print a line that says `ok`, so such a line proves nothing. But a line
that says a test failed exposes a forged report of a pass.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_UNITTEST_FAILED = re.compile(
    r"^(?:.* \.\.\. )?(?P<name>\S.*?) \.\.\. (?:FAIL|ERROR)$", re.MULTILINE
)
_SYMPY_FAILED = re.compile(r"^(?P<name>test_\w+) (?:F|E)$", re.MULTILINE)
PASS = ("PASSED", "XFAIL")
AS_BEFORE = ("SKIPPED", "XFAIL_UNMARKED")
"""Outcomes that count as a pass for a test of `pass_to_pass`, if the test has the same outcome
without the patch.
"""
_UNLISTED = ("SKIPPED", "XPASS")
"""Outcomes of which pytest's log does not name the test in a form that log parsers read."""
_FOLDERS = re.compile(r"\[/(?!/)[^*]*/(?=[^/*]*\]$)")
_OLD_NAME = re.compile(r"(?P<method>\w+) \((?P<place>[\w.]+)\)")


@dataclass(frozen=True)
class ProjectRunner:
    """Kind of test runner other than pytest."""

    name_of_file: Callable[[str], str]
    """Function that returns the command's argument for a test file."""
    failed: re.Pattern[str]
    """Pattern of a log line of a failed test. The group `name` is the test's name."""
    steering: str = r"(?!)"
    """Pattern of paths of files that control this runner, in addition to those of all projects."""


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
"""Map from kind, as in `RepoSnapshot.runner`, to runner."""


def command_of(runner: str, command: Sequence[str], test_files: Sequence[str]) -> tuple[str, ...]:
    """Return the runner's command with arguments that select these test files."""
    return (*command, *dict.fromkeys(RUNNERS[runner].name_of_file(path) for path in test_files))


def nodes_of(runner: str, names: Sequence[str], test_files: Sequence[str]) -> dict[str, str]:
    """Map node ids in pytest's form to the runner's own names.

    A runner's name that is the first line of a docstring has no node id. In SymPy, a name that
    occurs in several files belongs to the node ids of all these files.
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
    """Return the names of tests that failed according to a runner's log."""
    return frozenset(match["name"] for match in RUNNERS[runner].failed.finditer(log))


def spellings(name: str) -> tuple[str, ...]:
    """Return the names that a dataset's test may have on this Python, its own name first.

    Python 3.11 and newer print `test_x (module.Class.test_x)`, older ones `test_x (module.Class)`.
    If a log line also contains the output of an earlier test, log parsers return `earlier ...
    test`.
    """
    last = name.rpartition(" ... ")[2]
    names = [name, last]
    match = _OLD_NAME.fullmatch(last)
    if match is not None:
        method, place = match["method"], match["place"]
        names += [f"{method} ({place}.{method})", f"{method} ({place.removesuffix(f'.{method}')})"]
    return tuple(dict.fromkeys(names))


def record_of(name: str, records: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Return the runner's outcome for a dataset's test, and its detail.

    Some datasets cut an id at a space within its brackets, or shorten a path there to its last
    part. Such an id stands for all ids that log parsers shorten to it, and has their worst outcome.
    """
    for spelling in spellings(name):
        if f"node {spelling}" in records:
            return records[f"node {spelling}"]
    is_cut = name.count("[") > name.count("]") or ("[" in name and not name.endswith("]"))
    node = f"node {name}"
    matching = [
        record
        for label, record in records.items()
        if (label.startswith(node) if is_cut else _FOLDERS.sub("[/", label) == node)
    ]
    return min(
        [record for record in matching if record[0] not in _UNLISTED] or matching,
        key=lambda record: (record[0] in PASS, record[0] in AS_BEFORE),
        default=("", ""),
    )
