"""Stage problems of every source with their dialogs, and test their rounds.

Invalid rows are quarantined with a reason. Each round's code runs with the problem's complete test
suite, even if the setting shows only some of the tests.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sandbox.judging.runners.programs import parse
from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, Problem, TestSuite
from tasks.benchmarks.contract import Staged, TestRun
from tasks.benchmarks.convcode.log_files.logs import static_dialogs
from tasks.benchmarks.convcode.raw_row import (
    COLUMNS,
    Task,
    bigcodebench_task,
    function_task,
    require_tests,
)
from tasks.benchmarks.program_runs import base_program
from tasks.benchmarks.raw_rows import is_hub_dataset, matching, single_file, version_key
from tasks.benchmarks.setting import Options
from tasks.benchmarks.staging import RawRow, Staging, dialog_of, question

BENCHMARK_NAME = "convcode"
LOGS = "logs"
"""Name of the folder with a reference model's logs, in the folder of the task files."""
_SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz")
_RELEASE = re.compile(r"v\d+(?:\.\d+)+(?:_[a-z]+)?")


@dataclass(frozen=True)
class ProblemSource:
    """Raw files of one dataset version."""

    title: str
    folders: tuple[str, ...]
    """Folders to search below the path of `--data`. The first with any files is used."""
    patterns: tuple[str, ...]
    """Glob patterns of the files, which may also end in `.gz`."""
    task: Callable[[dict[str, Any]], Task]
    """Function from raw row to task. Raises BadRow."""
    levels: bool = False
    """True if the level is the prefix of a problem's id."""


_BIGCODEBENCH = ProblemSource(
    "BigCodeBench", ("", "data", "bigcodebench"), ("*.parquet", "*.jsonl"), bigcodebench_task
)

SOURCES: Mapping[str, ProblemSource] = {
    "bigcodebench": _BIGCODEBENCH,
    "humaneval": ProblemSource("HumanEval", ("", "humaneval"), ("HumanEval.jsonl",), function_task),
    "mbpp": ProblemSource("MBPP", ("", "mbpp"), ("mbpp*.jsonl",), function_task),
    "mint": ProblemSource(
        "MINT",
        ("", "processed", "mint/processed", "mint"),
        ("humaneval/test_prompts.json", "mbpp/test_prompts.json"),
        function_task,
        levels=True,
    ),
    "sample": _BIGCODEBENCH,
}
"""Sources by dataset version."""


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage task files, or a dataset of the hub in BigCodeBench's form.

    A hub dataset is named `hf:OWNER/NAME[@SPLIT]`. Each problem has a live dialog. If the folder
    contains `logs`, the dialogs that replay them follow.

    Raises:
        SourceUnreadable: There is no task file, no readable row, or the logs do not fit the tasks.
    """
    if is_hub_dataset(source) and dataset_version != "bigcodebench":
        raise SourceUnreadable(
            f"{source}: only version bigcodebench is read from the hub, not {dataset_version}"
        )
    staging = Staging(BENCHMARK_NAME, dataset_version)
    find = partial(task_files, dataset_version=dataset_version)
    staging.add_source(source, find, _make, COLUMNS)
    if (source / LOGS).is_dir():
        staging.dialogs.extend(static_dialogs(tuple(staging.problems), source / LOGS))
    return staging.staged()


def live_dialog(problem: Problem) -> Dialog:
    """Return the dialog that starts with the problem's instruction and continues with feedback."""
    return dialog_of(problem, question(1, problem.prompt), (("part", "live"),))


def _make(row: RawRow) -> tuple[Problem, tuple[Dialog]]:
    source = SOURCES[row.version]
    task = require_tests(source.task(row.fields))
    problem = row.problem(
        task.task_id,
        task.instruct_prompt,
        TestSuite(tests=(task.test,), kind="unittest"),
        task.gold,
        content_id(task),
        level=task.task_id.partition("/")[0].lower() if source.levels else "all",
        packages=distributions((*task.libs, *imported_modules(task.test))),
    )
    return problem, (live_dialog(problem),)


def task_files(source: Path, dataset_version: str) -> tuple[Path, ...]:
    """Return the task files in a file or folder, sorted.

    Raises:
        SourceUnreadable: The path does not exist, has no task file in any expected place, or has
            files of several releases, which contain the same tasks.
    """
    dataset = SOURCES[dataset_version]
    if file := single_file(source, _SUFFIXES, dataset.title):
        return file
    for folder in dataset.folders:
        if files := matching(source / folder, *dataset.patterns):
            return _one_release(tuple(sorted(files)))
    folders = ", ".join(str(source / folder) for folder in dataset.folders)
    raise SourceUnreadable(
        f"{source} has no {dataset.title} task file ({', '.join(dataset.patterns)}[.gz])"
        f" in {folders}. Name the folder of such files, or one of them."
        f" --dataset-version ({dataset_version}) determines how they are read"
    )


def _one_release(files: tuple[Path, ...]) -> tuple[Path, ...]:
    releases = {match.group() if (match := _RELEASE.search(path.name)) else "" for path in files}
    if len(releases) == 1:
        return files
    newest = max(files, key=lambda path: version_key(path.name))
    raise SourceUnreadable(
        f"{newest.parent} has several releases of the same tasks"
        f" ({', '.join(path.name for path in files)}). Name one file, for example --data {newest}"
    )


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> tuple[TestRun, ...]:
    """Return one test run per round. `code` is None for a round without answer."""
    suite = problem.instruction(BASE_INSTRUCTION).suite
    rounds = max((step.turn for step in episode.messages), default=0)
    answers = ((turn, episode.answer(turn)) for turn in range(1, rounds + 1))
    return tuple(
        TestRun.of(
            turn,
            BASE_INSTRUCTION,
            None if answer is None else base_program(problem, answer, options),
            suite.tests,
            suite.kind,
            reference=problem.reference_code,
        )
        for turn, answer in answers
    )


def code_of(problem: Problem, options: Options, answer: str) -> str:
    """Return the code of an answer's program, extracted according to the run's option."""
    return base_program(problem, answer, options).code


_DISTRIBUTIONS: Mapping[str, str] = {
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dns": "dnspython",
    "django": "Django",
    "docx": "python-docx",
    "faker": "Faker",
    "flask": "Flask",
    "flask_login": "Flask-Login",
    "flask_mail": "Flask-Mail",
    "flask_restful": "Flask-RESTful",
    "flask_wtf": "Flask-WTF",
    "mpl_toolkits": "matplotlib",
    "PIL": "Pillow",
    "pkg_resources": "setuptools",
    "python_http_client": "python-http-client",
    "requests_mock": "requests-mock",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "werkzeug": "Werkzeug",
    "wtforms": "WTForms",
    "yaml": "PyYAML",
}
MODULES: Mapping[str, str] = {
    distribution: module
    for module, distribution in _DISTRIBUTIONS.items()
    if module != "mpl_toolkits"
}
"""Module name of each distribution whose module has another name."""


def imported_modules(program: str) -> Iterator[str]:
    """Yield the modules imported anywhere in a program.

    Raises:
        SyntaxError: The program is not Python.
    """
    for node in ast.walk(parse(program)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def distributions(modules: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted distributions of the modules outside the standard library."""
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return tuple(sorted({_DISTRIBUTIONS.get(top, top) for top in tops}))
