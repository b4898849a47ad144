"""Rows of SWE-bench's format, and the test runner of each.

The rows come from Parquet, the Hugging Face hub, CSV or JSONL. A row's runner follows from its
project and version, or from its own command. `specs.json` has SWE-bench's commands, Python
versions, variables and packages of each version.
Script: `tests/tasks/benchmarks/dialogue_swebench/make_specs.py`.
"""

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from schemas.base import Frozen
from schemas.problem import COMMAND, RUNNER
from tasks.benchmarks.raw_rows import BadRow, Text, validated

DATA_FILES = (
    *(".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl"),
    *(".yml", ".yaml", ".toml"),
)
"""Suffixes of files in a test patch that the test command omits."""
PYTEST = ""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_LOCALE = ("LANG", "LANGUAGE", "LC_ALL")
"""Variables to drop. The sandbox has C.UTF-8 and no other UTF-8 locale."""
_SCRIPTS = {"runtests.py": "django", "test": "sympy"}
"""Name of a project's own script -> kind of runner."""


def _ids(value: Any) -> Any:
    """Return a list of test ids, or parse it from JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else []
    except ValueError:
        raise PydanticCustomError("broken_test_list", "is no JSON list of test ids") from None


def _commit(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", text):
        raise PydanticCustomError("no_commit", "is no commit id of 40 hex digits")
    return text


def _diff(text: str) -> str:
    if "--- " not in text and "diff --git " not in text:
        raise PydanticCustomError("no_diff", "is no unified diff")
    return text


def _tests(ids: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out pytest's progress `[100%]`, which two rows of SWE-bench Verified list as a test."""
    return tuple(name for name in ids if not re.fullmatch(r"\[ *\d+%\]", name))


TestIds = Annotated[tuple[str, ...], BeforeValidator(_ids), AfterValidator(_tests)]
Diff = Annotated[Text, AfterValidator(_diff)]


class Instance(BaseModel):
    """Issue of a repository, with its fix and the tests that verify it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    repo: Text
    instance_id: Text
    base_commit: Annotated[str, AfterValidator(_commit)]
    patch: Diff
    test_patch: Diff
    problem_statement: Text
    hints_text: str | None = ""
    version: str | None = ""
    difficulty: str | None = ""
    FAIL_TO_PASS: TestIds
    PASS_TO_PASS: TestIds = ()
    query: str | None = None
    """User's fixed first message, if the data has one."""
    test_cmd: str | None = None
    """Command that runs the tests, if the data has one. The tests' names are appended."""

    @property
    def title(self) -> str:
        """Return the issue's title, which is its first line that is not blank."""
        return next(line.strip() for line in self.problem_statement.splitlines() if line.strip())

    @property
    def test_files(self) -> tuple[str, ...]:
        """Return the files of the test patch for the test command."""
        names = re.findall(r"^diff --git a/.* b/(.*)$", self.test_patch, re.MULTILINE)
        return tuple(dict.fromkeys(name for name in names if not name.endswith(DATA_FILES)))


COLUMNS = tuple(Instance.model_fields)
"""Columns to read. Others are ignored."""
_OWN_REASONS = ("broken_test_list", "no_commit", "no_diff")


def parse_row(raw: dict[str, Any]) -> Instance:
    """Return a row as a validated instance.

    Raises:
        BadRow: The row is invalid, with a reason of `validated`, `_OWN_REASONS`, or no_tests.
    """
    instance = validated(Instance, raw, _OWN_REASONS)
    if not instance.FAIL_TO_PASS and not instance.PASS_TO_PASS:
        raise BadRow("no_tests", f"{instance.instance_id} has no test that must pass")
    return instance


class Route(Frozen):
    """Way to run the tests of an instance: runner, command, variables and Python."""

    runner: str
    """Runner as in `RepoSnapshot.runner`. Empty for pytest."""
    command: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    python: str = ""
    """Version of Python that SWE-bench uses. Empty if unknown."""

    @property
    def all_variables(self) -> tuple[tuple[str, str], ...]:
        """Return the variables, with the runner and its command as `RepoSnapshot` stores them."""
        if self.runner == PYTEST:
            return self.variables
        return tuple(
            sorted((*self.variables, (RUNNER, self.runner), (COMMAND, "\n".join(self.command))))
        )


def route_of(repo: str, version: str, test_ids: tuple[str, ...], test_cmd: str = "") -> Route:
    """Return the route of an instance's tests.

    The order of precedence is the row's own command, SWE-bench's command for the project's version,
    and pytest for pytest ids.

    Raises:
        BadRow: runner_unknown.
    """
    spec = _spec(repo, version)
    command = test_cmd or (spec["test_cmd"] if spec else "")
    route = _command_route(command) if command else Route(runner=PYTEST)
    if route is None:
        raise BadRow(
            "runner_unknown",
            f"the command {command!r} has no known runner (pytest, runtests.py, bin/test,"
            " -m unittest)",
        )
    if route.runner == PYTEST:
        if not any("::" in name for name in test_ids):
            test_id = test_ids[0] if test_ids else ""
            raise BadRow(
                "runner_unknown",
                f"{test_id!r} is not a pytest id, and {repo} {version} has no other known runner",
            )
        return Route(runner=PYTEST, python=python_of(repo, version))
    defaults = (
        {}
        if spec is None
        else {name: value for name, value in spec["variables"].items() if name not in _LOCALE}
    )
    variables = {**defaults, **dict(route.variables)}
    return route.model_copy(
        update={"python": python_of(repo, version), "variables": tuple(sorted(variables.items()))}
    )


def python_of(repo: str, version: str) -> str:
    """Return the version of Python that SWE-bench uses for a project's version.

    Empty if unknown.
    """
    spec = _spec(repo, version)
    return spec["python"] if spec else ""


def _spec(repo: str, version: str) -> Mapping[str, Any] | None:
    project = _projects().get(repo)
    specs = [] if project is None else project["specs"]
    return next((spec for spec in specs if version in spec["versions"]), None)


@cache
def _projects() -> Mapping[str, Any]:
    data: Any = json.loads(
        (files("tasks.benchmarks.dialogue_swebench") / "specs.json").read_text(encoding="utf-8")
    )
    return data["projects"]


def _command_route(text: str) -> Route | None:
    """Return the route of a command line, or None if it starts no known runner."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    n_variables = next(
        (n for n, word in enumerate(words) if not _ASSIGNMENT.fullmatch(word)), len(words)
    )
    variables = tuple(
        (name, value) for name, _, value in (word.partition("=") for word in words[:n_variables])
    )
    words = words[n_variables:]
    if words and re.fullmatch(r"(.*/)?python[\d.]*", words[0]):
        words = words[1:]
    program = words[0].removeprefix("./") if words else ""
    if words[:2] == ["-m", "unittest"]:
        return Route(runner="unittest", command=tuple(words), variables=variables)
    if program in ("pytest", "py.test", "tox") or words[:2] == ["-m", "pytest"]:
        return Route(runner=PYTEST)
    kind = _SCRIPTS.get(program.rpartition("/")[2]) if "/" in program else None
    return (
        None
        if kind is None
        else Route(runner=kind, command=(program, *words[1:]), variables=variables)
    )
