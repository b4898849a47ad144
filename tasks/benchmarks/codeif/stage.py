"""Staging of CodeIF-Bench: dialogs and problems of function (L1 part 1) and repository tasks.

Repository tasks are L1 part 2, L2 and L3. They run in their projects.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from sandbox.judging.runners.programs import definition_lines
from schemas.dialog import MISSING, Dialog
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, AddedTest, Definition, Placing, Problem, TestSuite
from schemas.run import Limits
from tasks.benchmarks.advanced import Source
from tasks.benchmarks.codeif.construction.base_task import CONSTRUCTION, read_comments
from tasks.benchmarks.codeif.raw_row import (
    OWN_REASONS,
    FunctionRow,
    RepositoryRow,
    instructions_of,
)
from tasks.benchmarks.codeif.recording import LEVEL_1, published_turns
from tasks.benchmarks.codeif.settings import (
    REPOSITORY_STRATEGIES,
    STRATEGIES,
    imported_packages,
    problem_id,
    strategy_turns,
)
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import SUFFIXES, matching, single_file, validated
from tasks.benchmarks.staging import RawRow, Staging, dialog_of
from tasks.dialogue.tools import Place, Tree, WantedProgram

RESOURCE = "repos"
"""Name of the resource with the projects, in DevEval's layout: DOMAIN/PROJECT."""
LIMITS = Limits(
    cpu_s=60.0,
    wall_s=180.0,
    memory_mb=5120,
    processes=256,
    file_mb=256,
    tmp_mb=1024,
    open_files=1024,
)
"""Upstream's limits are 60 s and 5 GB; `wall_s` is larger for a loaded machine."""
CONSTRUCTION_REPOSITORIES = "construction-repositories"
"""Dataset version of base tasks for which a build writes instructions.

The dialogs' labels contain the raw row.
"""
RAW_ROW = "raw_row"
"""Label with the row's fields, as JSON, that a build copies to its result."""
PACKAGES_FOLDER = ".packages"
"""Folder of a project with the test dependencies that Parley's own environment lacks."""
_CONTEXT_BEGINS = "The context you need to refer to"
_PROJECT, _FILE, _NAME, _LINES, _CONTEXT = "project", "file", "definition", "lines", "context_from"
_TEST_NAME = re.compile(r"(?m)^(\s*(?:async\s+)?def\s+)(\w+)")


def repository_problem(row: RawRow, task: RepositoryRow, digest: str) -> Problem:
    """Return the problem of a row.

    The base suite contains node ids. The suite of a requirement contains the node id of its test,
    then the test's text.
    """
    others = instructions_of(task.requirements, REPOSITORY_STRATEGIES)
    tests = (text for instruction in others for text in instruction.suite.tests)
    return row.problem(
        f"repo/{task.namespace}",
        task.prompt,
        TestSuite(tests=tuple(task.tests), kind="pytest"),
        task.code,
        digest,
        level=task.level,
        others=others,
        packages=("pytest", *imported_packages(tests)),
    )


def repository_dialog(row: RepositoryRow, problem: Problem) -> Dialog:
    """Return the static conversation of a row."""
    begins = row.prompt.find(_CONTEXT_BEGINS)
    labels = (
        ("level", row.level),
        (_PROJECT, row.project_path),
        (_FILE, row.file),
        (_NAME, row.name),
        (_LINES, f"{row.signature_position[0]}-{row.body_position[1]}"),
        *(((_CONTEXT, str(begins)),) if begins >= 0 else ()),
        *((kind, str(n)) for kind, n in row.n_dependencies.items()),
    )
    return dialog_of(problem, strategy_turns(problem, row.turn_order), labels)


def project_of(dialog: Dialog) -> str | None:
    """Return DOMAIN/PROJECT of a dialog's project; None for function tasks."""
    return dict(dialog.labels).get(_PROJECT)


def source_of(dialog: Dialog) -> Source | None:
    """Return the project in which a dialog's programs run; None for function tasks."""
    project = project_of(dialog)
    return None if project is None else Source(RESOURCE, project, PACKAGES_FOLDER)


def fits(dialog: Dialog, folder: Path) -> bool:
    """Return True if the project has the definition that answers replace.

    Another release of the project may lack it.
    """
    labels = dict(dialog.labels)
    try:
        text = (
            (folder / labels[_FILE])
            .read_bytes()
            .decode("utf-8", "surrogateescape")
            .replace("\r\n", "\n")
        )
        definition_lines(text, _definition(labels))
    except (OSError, LookupError):
        return False
    return True


def _definition(labels: Mapping[str, str]) -> Definition:
    first, last = labels[_LINES].split("-")
    return Definition(name=labels[_NAME], first_line=int(first), last_line=int(last))


def context_from(dialog: Dialog) -> int | None:
    """Return the offset of the golden contexts in the first message; None if it has none."""
    offset = dict(dialog.labels).get(_CONTEXT)
    return None if offset is None else int(offset)


def place_of(
    problem: Problem, dialog: Dialog, names: Sequence[str]
) -> tuple[Place, Mapping[str, tuple[str, ...]]]:
    """Return the project tree in which instructions' tests run, and each instruction's node ids."""
    labels = dict(dialog.labels)
    base = problem.instruction(BASE_INSTRUCTION).suite.tests
    added = {
        name: _added_test(problem.instruction(name).suite.tests, base)
        for name in names
        if name != BASE_INSTRUCTION
    }
    decides = {name: (added[name].node_id,) if name in added else base for name in names}
    placing = Placing(
        definition=_definition(labels),
        added=tuple(added.values()),
        folders=("src",),
        environment=PACKAGES_FOLDER,
    )
    packages = dialog.tree_packages
    tree = Tree(
        digest=dialog.tree or MISSING,
        folder=Path(labels[_PROJECT]),
        resource=RESOURCE,
        packages=packages,
    )
    return Place(tree=tree, entry_point=labels[_FILE], placing=placing, limits=LIMITS), decides


def self_test(problem: Problem, dialog: Dialog) -> WantedProgram | None:
    """Return the base tests of a repository task on its unchanged project, which must pass.

    Returns None for function tasks.
    """
    if project_of(dialog) is None:
        return None
    place, decides = place_of(problem, dialog, (BASE_INSTRUCTION,))
    return WantedProgram("pytest", "", decides[BASE_INSTRUCTION], place)


def _added_test(tests: Sequence[str], base: Sequence[str]) -> AddedTest:
    """Return a requirement's test, renamed if a base test has the same name."""
    node_id, text = tests[0], "\n\n".join(tests[1:])
    if node_id not in base:
        return AddedTest(node_id=node_id, text=text)
    name = node_id.rpartition("::")[2]
    renamed = _TEST_NAME.sub(lambda m: f"{m[1]}{name}__added" if m[2] == name else m[0], text)
    return AddedTest(node_id=f"{node_id}__added", text=renamed)


_SECTION = re.compile(r"(?m)^(?=[ \t]*####\w)")
_HOLE = re.compile(r"(?m)^.*###The function: .*$")
CHARACTERS_PER_TOKEN = 4
"""Assumed number of characters in a token, the same for all models."""
_CUT = "\n[...]\n"


def within_budget(prompt: str, begins: int | None, tokens: int | None) -> str:
    """Return the message with its contexts cut to a number of tokens.

    The contexts have sections: the task's file and other files. Each section gets an equal share,
    and tokens that a short section does not need go to the others. Of the task's file the text
    around the function remains, of other files the beginning.

    Args:
        prompt: the first message.
        begins: offset of the contexts in the message; None if it has none.
        tokens: maximum tokens of all contexts; None for no limit.
    """
    if begins is None or tokens is None:
        return prompt
    sections = [part for part in _SECTION.split(prompt[begins:]) if part]
    left, shown = tokens * CHARACTERS_PER_TOKEN, dict[int, str]()
    by_length = sorted(range(len(sections)), key=lambda n: len(sections[n]))
    for done, n in enumerate(by_length):
        shown[n] = _around(sections[n], left // (len(sections) - done))
        left -= min(len(sections[n]), left // (len(sections) - done))
    return prompt[:begins] + "".join(shown[n] for n in range(len(sections)))


def _around(text: str, characters: int) -> str:
    """Return at most `characters` characters, around the function's marker or from the start."""
    if len(text) <= characters:
        return text
    hole = _HOLE.search(text)
    middle = (hole.start() + hole.end()) // 2 if hole else 0
    first = max(0, min(middle - characters // 2, len(text) - characters))
    last = first + characters
    return (_CUT if first else "") + text[first:last] + (_CUT if last < len(text) else "")


BENCHMARK_NAME = "codeif"
LEVEL = "L1"
_REPLACED = ("prompt", "code", "context", "requirements", "multi-turn")
"""Fields of a repository task's row that a build replaces or drops."""
TASK_FILES = "L_1_part_1*.jsonl"
REPOSITORY_FILES = ("L_1_part_2*.jsonl", "L_2*.jsonl", "L_3*.jsonl")
"""Files of repository tasks.

The first release (v0) is staged without them, since its rows have no order of turns.
"""


def stage(source: Path, dataset_version: str) -> Staged:
    """Stage a task file, or the task files of a folder.

    Raises:
        SourceUnreadable: there is no task file, or no file has a readable line.
    """
    files = task_files(source, dataset_version)
    turns = published_turns(source) if dataset_version == LEVEL_1 else {}
    staging = Staging(BENCHMARK_NAME, dataset_version)
    staging.add_source(source, lambda _: files, partial(_make, turns=turns))
    staged = staging.staged()
    return (
        _with_comments(staged, source, dataset_version)
        if dataset_version == CONSTRUCTION
        else staged
    )


def _with_comments(staged: Staged, source: Path, version: str) -> Staged:
    """Return the rows with the review comments as a context.

    Each dialog names the context, so that the comments are part of ids. No dialog shows it.
    """
    contexts, bad_rows = read_comments(source, BENCHMARK_NAME, version)
    update = {"context_id": contexts[0].context_id} if contexts else {}
    return Staged(
        dialogs=(dialog.model_copy(update=update) for dialog in staged.dialogs),
        problems=staged.problems,
        quarantined=(*staged.quarantined, *bad_rows),
        n_input=staged.n_input + len(bad_rows),
        contexts=contexts,
    )


def _make(row: RawRow, turns: Mapping[str, tuple[str, ...]]) -> tuple[Problem, tuple[Dialog]]:
    """Stage a row; the turns of published runs, if given, replace the row's own."""
    if "namespace" in row.fields:
        return _make_repository(row, turns)
    task = validated(FunctionRow, row.fields, OWN_REASONS)
    base = TestSuite(tests=tuple(task.test))
    others = instructions_of(task.requirements, STRATEGIES)
    suites = (base, *(instruction.suite for instruction in others))
    problem = row.problem(
        problem_id(task.task_id),
        task.prompt,
        base,
        task.code,
        row.digest(row.fields),
        level=LEVEL,
        others=others,
        packages=imported_packages(test for suite in suites for test in suite.tests),
    )
    order = task.turn_order(row.version)
    return problem, (dialog_of(problem, strategy_turns(problem, order), (("level", LEVEL),)),)


def _make_repository(
    row: RawRow, turns: Mapping[str, tuple[str, ...]]
) -> tuple[Problem, tuple[Dialog]]:
    raw, name = row.fields, row.fields["namespace"]
    if isinstance(name, str) and turns.get(name):
        raw["multi-turn"] = list(turns[name])
    task = validated(RepositoryRow, raw, OWN_REASONS)
    problem = repository_problem(row, task, row.digest(raw))
    dialog = repository_dialog(task, problem)
    if row.version == CONSTRUCTION_REPOSITORIES:
        raw_json = json.dumps(
            {name: value for name, value in raw.items() if name not in _REPLACED},
            ensure_ascii=False,
        )
        dialog = dialog.model_copy(update={"labels": (*dialog.labels, (RAW_ROW, raw_json))})
    return problem, (dialog,)


def task_files(source: Path, dataset_version: str) -> tuple[Path, ...]:
    """Return the files to stage: those of function tasks, then those of repository tasks.

    Raises:
        SourceUnreadable: the path does not exist, or contains no task file in the searched folders.
    """
    if file := single_file(source, SUFFIXES, "CodeIF-Bench"):
        return file
    repository_folders = (source, source / "repo")
    if dataset_version == LEVEL_1:
        if files := _first_files(repository_folders, REPOSITORY_FILES[:1]):
            return files
        raise SourceUnreadable(
            f"{source} contains no {REPOSITORY_FILES[0]}[.gz]. Pass CodeIF-Bench's folder, or its"
            " folder `repo`"
        )
    if dataset_version == CONSTRUCTION_REPOSITORIES:
        if files := _first_files(repository_folders, REPOSITORY_FILES):
            return files
        raise SourceUnreadable(
            f"{source} contains none of {', '.join(REPOSITORY_FILES)}[.gz]. Pass the folder that"
            " contains them"
        )
    if dataset_version in ("v0", CONSTRUCTION):
        repository_folders = ()
    function_folders = _function_folders(source, dataset_version)
    functions = _first_files(function_folders, (TASK_FILES,))
    repositories = _first_files(repository_folders, REPOSITORY_FILES)
    if functions or repositories:
        return (*functions, *repositories)
    folders = ", ".join(map(str, dict.fromkeys((*function_folders, *repository_folders))))
    raise SourceUnreadable(
        f"{source} contains no CodeIF-Bench {dataset_version} task file: no {TASK_FILES}[.gz] in"
        f" {folders}. Pass the folder of the benchmark's repository, or the file itself"
    )


def _function_folders(source: Path, dataset_version: str) -> tuple[Path, ...]:
    if dataset_version == "v0":
        sibling = (source.parent / "v0" / "function",) if source.name == "function" else ()
        return (source / "v0" / "function", *sibling, source / "function", source)
    if dataset_version == "current" and "v0" in (source.name, source.parent.name):
        raise SourceUnreadable(
            f"{source} is the first release, not the current files."
            " Stage it with --dataset-version v0, or pass the parent folder of v0"
        )
    return (source, source / "function")


def _first_files(folders: tuple[Path, ...], patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the matching files of the first folder that has any."""
    found = (matching(folder, *patterns) for folder in folders)
    return next((tuple(sorted(files)) for files in found if files), ())
