"""How an instance's tests are run: by its project and version, or by the command that its own row names.

`specs.json` has SWE-bench's commands, Pythons, variables and packages of each version
(`tests/tasks/benchmarks/dialogue_swebench/make_specs.py` makes it).
"""

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from schemas.base import Frozen
from schemas.problem import COMMAND, RUNNER
from tasks.benchmarks.raw_lines import BadRow

PYTEST = ""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_LOCALE = ("LANG", "LANGUAGE", "LC_ALL")
"""The sandbox has C.UTF-8, and no other locale with UTF-8."""
_SCRIPTS = {"runtests.py": "django", "test": "sympy"}
"""Name of a project's own script -> kind of runner."""


class Route(Frozen):
    """One way to run tests."""

    runner: str
    """As `RepoSnapshot.runner` has it: empty for pytest."""
    command: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    python: str = ""
    """Version that SWE-bench runs them on; empty where it is not known."""

    @property
    def all_variables(self) -> tuple[tuple[str, str], ...]:
        """The variables, and the runner with its command as `RepoSnapshot` carries them."""
        if self.runner == PYTEST:
            return self.variables
        return tuple(
            sorted((*self.variables, (RUNNER, self.runner), (COMMAND, "\n".join(self.command))))
        )


def route_of(repo: str, version: str, test_ids: tuple[str, ...], test_cmd: str = "") -> Route:
    """Return the way by the row's own command, else by SWE-bench's for the project's version, else pytest for ids of pytest.

    Raises:
        BadRow: runner_unknown.
    """
    spec = _spec(repo, version)
    command = test_cmd or (spec["test_cmd"] if spec else "")
    found = _of_command(command) if command else Route(runner=PYTEST)
    if found is None:
        raise BadRow(
            "runner_unknown",
            f"no runner is known for the command {command!r}: pytest, runtests.py, bin/test, -m unittest",
        )
    if found.runner == PYTEST:
        if not any("::" in name for name in test_ids):
            named = test_ids[0] if test_ids else ""
            raise BadRow(
                "runner_unknown",
                f"{named!r} is no id of pytest's, and no other runner is known for {repo} {version}",
            )
        return Route(runner=PYTEST, python=python_of(repo, version))
    known = (
        {}
        if spec is None
        else {name: value for name, value in spec["variables"].items() if name not in _LOCALE}
    )
    variables = {**known, **dict(found.variables)}
    return found.model_copy(
        update={"python": python_of(repo, version), "variables": tuple(sorted(variables.items()))}
    )


def python_of(repo: str, version: str) -> str:
    """Return the Python that SWE-bench runs a project's version on; empty where it is not known."""
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


def _of_command(text: str) -> Route | None:
    """Return the way that a command line names; None where it starts no runner that is known."""
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
