"""Staging of SWE-bench rows as problems with one dialogue each.

Invalid rows are quarantined with their reason.

`grade_routes` returns the grading routes of a file's rows, or of SWE-bench Verified without its
file. `verified.json` groups the 500 instances by project, Python version and possible project
versions, and names the sources of these facts. Instances are identified by the number in their id.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.errors import SourceUnreadable
from schemas.problem import Problem, RepoSnapshot, TestSuite
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench.cast import draw_persona
from tasks.benchmarks.dialogue_swebench.raw_row import (
    COLUMNS,
    Instance,
    parse_row,
    python_of,
    route_of,
)
from tasks.benchmarks.dialogue_swebench.settings import DIFFICULTY, PERSONA_TEXT
from tasks.benchmarks.raw_rows import is_hub_dataset, single_file
from tasks.benchmarks.staging import GradeRoute, RawRow, Staging, dialog_of, question

BENCHMARK_NAME = "dialogue_swebench"
PERSONA, QUERY_SOURCE, REPO = "persona", "query", "repo"
QUERIES = "queries.jsonl"
"""File in the data's folder with fixed first messages, one `{"instance_id", "query"}` per line.

`parley build` writes it.
"""
_SUFFIXES = (".csv", ".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz")
_UNKNOWN = "unknown"
VERIFIED = "swebench_verified"
_FACTS = files("tasks.benchmarks.dialogue_swebench") / "verified.json"
_FORMS = {"django/django": "test_a (a.tests.B)", "sympy/sympy": "test_a"}
"""Example of a test id in a project's rows. Other projects have pytest ids."""
_PYTEST_ID = "tests/test_a.py::test_a"
_NO_ROUTE = ""


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage a file of instances, all files of a folder, or a hub dataset (`hf:OWNER/NAME@SPLIT`).

    Raises:
        SourceUnreadable: There is no such file, or none has a readable row.
    """
    staging = Staging(BENCHMARK_NAME, dataset_version)
    staging.add_source(source, _files, partial(_make, queries=_queries(source)), COLUMNS)
    return staging.staged()


def _files(source: Path) -> tuple[Path, ...]:
    if file := single_file(source, _SUFFIXES, "SWE-bench"):
        return file
    files = tuple(
        path
        for path in sorted(source.iterdir())
        if path.name.endswith(_SUFFIXES) and path.name not in (QUERIES, "environments.json")
    )
    if not files:
        raise SourceUnreadable(
            f"{source} contains no {', '.join(_SUFFIXES)} file of instances. Name one in"
            " SWE-bench's format, or its folder"
        )
    return files


def _queries(source: Path) -> dict[str, str]:
    """Return the fixed first message of each instance, from the file in the data's folder.

    An instance whose line has no message (`null` or blank) gets its title.

    Raises:
        SourceUnreadable: A line is invalid.
    """
    path = (source if source.is_dir() else source.parent) / QUERIES
    if is_hub_dataset(source) or not path.is_file():
        return {}
    queries: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row: Any = json.loads(line)
            name, query = row["instance_id"], row["query"]
        except (ValueError, KeyError, TypeError):
            raise SourceUnreadable(
                f'{path} line {number}: not an object {{"instance_id", "query"}}'
            ) from None
        if not isinstance(name, str) or not isinstance(query, str | None):
            raise SourceUnreadable(f"{path} line {number}: instance_id and query must be texts")
        if query and query.strip():
            queries[name] = query
    return queries


def _make(row: RawRow, queries: Mapping[str, str]) -> tuple[Problem, tuple[Dialog]]:
    instance = parse_row(row.fields)
    problem = _problem(instance, row)
    return problem, (_dialog(instance, problem, queries.get(instance.instance_id)),)


def _problem(instance: Instance, row: RawRow) -> Problem:
    suite = TestSuite(tests=(*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS), kind="patch")
    route = route_of(instance.repo, instance.version or "", suite.tests, instance.test_cmd or "")
    facts = instance.model_dump(
        exclude={"query", "hints_text", *(() if instance.test_cmd else ("test_cmd",))}
    )
    return row.problem(
        instance.instance_id,
        instance.problem_statement,
        suite,
        instance.patch,
        content_id(facts),
        level=instance.difficulty or _UNKNOWN,
        title=instance.title,
        repo=RepoSnapshot(
            repo=instance.repo,
            base_commit=instance.base_commit,
            test_patch=instance.test_patch,
            fail_to_pass=instance.FAIL_TO_PASS,
            pass_to_pass=instance.PASS_TO_PASS,
            version=instance.version or "",
            test_files=instance.test_files,
            variables=route.all_variables,
        ),
    )


def _dialog(instance: Instance, problem: Problem, stored_query: str | None) -> Dialog:
    """Return the dialog, which opens with the data's message, the file's, or the issue's title.

    Args:
        instance: Row of the data.
        problem: Problem of the row.
        stored_query: Message of the file in the data's folder, if any.
    """
    query, source = (instance.query or stored_query or "").strip(), "data"
    if not query:
        query, source = (
            f"I have a problem with {instance.repo.rpartition('/')[2]}: {instance.title}",
            "title",
        )
    kind, persona = draw_persona(instance.instance_id)
    labels = (
        (PERSONA, kind),
        (PERSONA_TEXT, persona),
        (QUERY_SOURCE, source),
        (DIFFICULTY, problem.level),
        (REPO, instance.repo),
    )
    digest = content_id([problem.row_digest, query, persona])
    return dialog_of(problem, question(1, query), labels, digest=digest)


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
