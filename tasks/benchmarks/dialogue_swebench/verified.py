"""Grading routes of a file's rows, or of SWE-bench Verified without its file.

`verified.json` groups the 500 instances by project, Python version and possible project versions,
and names the sources of these facts. Instances are identified by the number in their id.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tasks.benchmarks.data import GradeRoute
from tasks.benchmarks.dialogue_swebench.routes import python_of, route_of
from tasks.benchmarks.dialogue_swebench.stage import stage

VERIFIED = "swebench_verified"
_FACTS = files("tasks.benchmarks.dialogue_swebench") / "verified.json"
_FORMS = {"django/django": "test_a (a.tests.B)", "sympy/sympy": "test_a"}
"""Example of a test id in a project's rows. Other projects have pytest ids."""
_PYTEST_ID = "tests/test_a.py::test_a"
_NO_ROUTE = ""


def grade_routes(dataset: str, source: Path | None) -> tuple[GradeRoute, ...] | None:
    """Return the routes of the files' rows, or those of SWE-bench Verified by its facts.

    See `GradeRoutes`.
    """
    if source is not None:
        return tuple(_merge(_row_routes(source)))
    return tuple(_merge(_fact_routes())) if dataset == VERIFIED else None


def _fact_routes() -> Iterator[GradeRoute]:
    facts: Mapping[str, Any] = json.loads(_FACTS.read_text(encoding="utf-8"))
    for project, groups in facts["projects"].items():
        for group in groups:
            routes = [
                route_of(project, version, (_FORMS.get(project, _PYTEST_ID),))
                for version in group["versions"]
            ]
            route = routes[0]
            if route.python != group["python"] or any(other != route for other in routes):
                raise ValueError(
                    f"{project} {group['versions']}: graded differently on Python"
                    f" {group['python']}: {routes}. Give each version a group of its own"
                )
            ids = tuple(f"{project.replace('/', '__')}-{number}" for number in group["instances"])
            yield GradeRoute(
                project=project,
                versions=tuple(group["versions"]),
                python=group["python"],
                runner=route.runner or "pytest",
                command=route.command,
                problem_ids=ids,
                exceptions={
                    name: facts["exceptions"][name] for name in ids if name in facts["exceptions"]
                },
            )


def _row_routes(source: Path) -> Iterator[GradeRoute]:
    exceptions: Mapping[str, str] = json.loads(_FACTS.read_text(encoding="utf-8"))["exceptions"]
    staged = stage(source, "instances")
    for problem in staged.problems:
        repository = problem.repo
        assert repository is not None
        name = problem.problem_id
        yield GradeRoute(
            project=repository.repo,
            versions=(repository.version,) if repository.version else (),
            python=python_of(repository.repo, repository.version),
            runner=repository.runner or "pytest",
            command=repository.command,
            problem_ids=(name,),
            exceptions={name: exceptions[name]} if name in exceptions else {},
        )
    for row in staged.quarantined:
        name = f"{row.source_file}:{row.source_line}"
        why = f"{row.reason}: {row.detail}"
        yield GradeRoute(
            project="",
            versions=(),
            python="",
            runner=_NO_ROUTE,
            problem_ids=(name,),
            exceptions={name: why},
        )


def _merge(routes: Iterator[GradeRoute]) -> Iterator[GradeRoute]:
    """Join routes with the same project, Python, runner and command."""
    groups: defaultdict[tuple[str, str, str, tuple[str, ...]], list[GradeRoute]] = defaultdict(list)
    for route in routes:
        groups[route.project, route.python, route.runner, route.command].append(route)
    for group in (groups[key] for key in sorted(groups, key=_by_project_and_python)):
        yield group[0].model_copy(
            update={
                "versions": tuple(
                    sorted({version for route in group for version in route.versions}, key=_numbers)
                ),
                "problem_ids": tuple(name for route in group for name in route.problem_ids),
                "exceptions": {
                    name: why for route in group for name, why in route.exceptions.items()
                },
            }
        )


def _by_project_and_python(
    key: tuple[str, str, str, tuple[str, ...]],
) -> tuple[str, list[int], tuple[str, ...]]:
    return key[0], _numbers(key[1]), key[3]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
