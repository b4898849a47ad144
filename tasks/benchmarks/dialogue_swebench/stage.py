"""Rows of SWE-bench's format as problems, each with one dialogue. Other rows are quarantined with their reason."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, RepoSnapshot, TestSuite
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.dialogue_swebench.personas import drawn_persona
from tasks.benchmarks.dialogue_swebench.raw_row import COLUMNS, Instance, parse_row
from tasks.benchmarks.dialogue_swebench.routes import route_of
from tasks.benchmarks.dialogue_swebench.settings import DIFFICULTY
from tasks.benchmarks.raw_lines import Fault, Line, parse_object, read_lines, relative_name
from tasks.benchmarks.raw_tables import is_hub_dataset, read_csv, read_hub, read_parquet
from tasks.benchmarks.staging import Staging

BENCHMARK_NAME = "dialogue_swebench"
PERSONA, PERSONA_TEXT, QUERY_SOURCE, REPO = "persona", "persona_text", "query", "repo"
QUERIES = "queries.jsonl"
"""Beside the data: fixed first messages, `{"instance_id", "query"}` a line, as a build leaves them."""
_SUFFIXES = (".csv", ".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz")
_UNKNOWN = "unknown"


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage a file of instances, all files of a folder, or a dataset of the hub (`hf:OWNER/NAME@SPLIT`).

    Raises:
        SourceUnreadable: no such file, or none with a row that can be read.
    """
    queries, staging = _queries(source), Staging(BENCHMARK_NAME, dataset_version)

    def add(file: str, rows: Iterable[Line | Fault]) -> None:
        staging.add_lines(file, rows, lambda row: _make(row, file, dataset_version, queries))

    if is_hub_dataset(source):
        add(*read_hub(source, COLUMNS))
    else:
        for path in _files(source):
            add(relative_name(path, source), _read(path))
    staging.require_lines(source, 1)
    return staging.staged()


def _files(source: Path) -> tuple[Path, ...]:
    if source.is_file():
        if not source.name.endswith(_SUFFIXES):
            raise SourceUnreadable(
                f"{source} is not a {', '.join(_SUFFIXES)} file. Give one, or the folder that holds it"
            )
        return (source,)
    there = sorted(source.iterdir()) if source.is_dir() else []
    found = [
        path
        for path in there
        if path.name.endswith(_SUFFIXES) and path.name not in (QUERIES, "environments.json")
    ]
    if not found:
        raise SourceUnreadable(
            f"{source} holds no {', '.join(_SUFFIXES)} file of instances: give one in SWE-bench's format, or its folder"
        )
    return tuple(found)


def _read(path: Path) -> Iterator[Line | Fault]:
    if path.name.endswith(".csv"):
        return read_csv(path, COLUMNS)
    return read_parquet(path, COLUMNS) if path.name.endswith(".parquet") else read_lines(path)


def _queries(source: Path) -> dict[str, str]:
    """Instance -> its fixed first message, from the file beside the data.

    A line without one (`null`, or blank) leaves the instance to its title.

    Raises:
        SourceUnreadable: a line that is none.
    """
    path = (source if source.is_dir() else source.parent) / QUERIES
    if is_hub_dataset(source) or not path.is_file():
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row: Any = json.loads(line)
            name, query = row["instance_id"], row["query"]
        except (ValueError, KeyError, TypeError):
            raise SourceUnreadable(
                f'{path} line {number}: is no {{"instance_id", "query"}}'
            ) from None
        if not isinstance(name, str) or not isinstance(query, str | None):
            raise SourceUnreadable(f"{path} line {number}: instance_id and query must be texts")
        if query and query.strip():
            found[name] = query
    return found


def _make(
    line: Line, file: str, version: str, queries: Mapping[str, str]
) -> tuple[Problem, list[Dialog]]:
    instance = parse_row(parse_object(line.content))
    problem = _problem(instance, version, file, line.number)
    return problem, [_dialog(instance, problem, queries.get(instance.instance_id))]


def _problem(instance: Instance, version: str, file: str, line: int) -> Problem:
    suite = TestSuite(tests=(*instance.FAIL_TO_PASS, *instance.PASS_TO_PASS), kind="patch")
    route = route_of(instance.repo, instance.version or "", suite.tests, instance.test_cmd or "")
    facts = instance.model_dump(
        exclude={"query", "hints_text", *(() if instance.test_cmd else ("test_cmd",))}
    )
    return Problem(
        benchmark=BENCHMARK_NAME,
        dataset_version=version,
        problem_id=instance.instance_id,
        level=instance.difficulty or _UNKNOWN,
        prompt=instance.problem_statement,
        instructions=(
            Instruction(instruction_id=BASE_INSTRUCTION, text=instance.title, suite=suite),
        ),
        reference_code=instance.patch,
        source_file=file,
        source_line=line,
        row_digest=content_id(facts),
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


def _dialog(instance: Instance, problem: Problem, beside: str | None) -> Dialog:
    """The user's first message: the data's, that of the file beside, or the issue's title."""
    query, source = (instance.query or beside or "").strip(), "data"
    if not query:
        query, source = (
            f"I have a problem with {instance.repo.rpartition('/')[2]}: {instance.title}",
            "title",
        )
    kind, persona = drawn_persona(instance.instance_id)
    return Dialog(
        benchmark=BENCHMARK_NAME,
        dataset_version=problem.dataset_version,
        dialog_id=instance.instance_id,
        problem_id=instance.instance_id,
        turns=(
            Turn(turn=1, role=Role.USER, content=query, instruction_id=BASE_INSTRUCTION),
            Turn(turn=1, role=Role.ASSISTANT),
        ),
        labels=(
            (PERSONA, kind),
            (PERSONA_TEXT, persona),
            (QUERY_SOURCE, source),
            (DIFFICULTY, problem.level),
            (REPO, instance.repo),
        ),
        row_digest=content_id([problem.row_digest, query, persona]),
        problem_digest=problem.row_digest,
    )
