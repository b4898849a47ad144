"""Import of upstream's published answers of a model, and of their turns.

Answers to function tasks lie in `base/MODEL` and `n_round/MODEL`, answers to repository tasks in
`level_1/MODEL/base` and `level_1/MODEL/n_round`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from schemas.errors import SourceUnreadable, UnknownName
from tasks.benchmarks.codeif.raw_row import RepositoryStrategy, StrategyName
from tasks.benchmarks.codeif.settings import problem_id
from tasks.benchmarks.raw_rows import SUFFIXES, Fault, Line, RawModel, read_lines, read_models
from tasks.language.recorded_model import RecordedAnswer

LEVEL_1 = "level_1"
"""Dataset version: the current repository tasks of L1 with the turns of the published runs, which
left some out."""
BASE, N_ROUND = "base", "n_round"
_VERDICT_SUFFIXES = tuple(f"_results{suffix}" for suffix in SUFFIXES)
_PLACES = ("Experiments/level_1", "repo/Experiments/level_1")
_ANSWERS = "result.jsonl"


class _FunctionAnswer(RawModel):
    task: int = Field(ge=0, alias="task_id")
    completion: str


class _FunctionFollowUp(_FunctionAnswer):
    instruction: StrategyName = Field(alias="requirement")


class _RepositoryAnswer(RawModel):
    task: str = Field(alias="namespace")
    completion: str


class _RepositoryFollowUp(_RepositoryAnswer):
    instruction: RepositoryStrategy = Field(alias="type")


Answer = _FunctionAnswer | _RepositoryAnswer
Answers = dict[int | str, dict[str, str]]
"""Task -> instruction -> answer, in the order of the rows."""


def import_recording(folder: Path, model: str) -> Iterator[RecordedAnswer]:
    """Return the answers of one published model: base is turn 1, n_round rows are later turns.

    A verbatim repetition of an earlier row is dropped.

    Args:
        folder: the folder that contains `base` and `n_round` (`function/Experiments` of the
            repository), or a folder with such a folder for each model (`repo/Experiments/level_1`).
        model: name of the model's folder.

    Raises:
        SourceUnreadable: the folder has another layout, or a file has a row of another form. The
            message names file and line.
        UnknownName: no such model; lists the published ones.
    """
    if is_of_repositories(folder):
        if model not in repository_models(folder):
            raise UnknownName("published model", model, repository_models(folder))
        base = _answers([folder / model / BASE / _ANSWERS], _RepositoryAnswer)
        follow_ups = _repository_follow_ups(folder / model)
    else:
        base = _answers(_answer_files(folder, BASE, model), _FunctionAnswer)
        follow_ups = _answers(_answer_files(folder, N_ROUND, model), _FunctionFollowUp)
    for task in follow_ups:
        if task not in base:
            raise SourceUnreadable(
                f"{folder}: task {task} has no base answer, so its turns have no numbers. Add the"
                " base answer, or remove its n_round rows"
            )
    return iter(
        [
            RecordedAnswer(
                problem_id(task) if isinstance(task, int) else f"repo/{task}", turn, content
            )
            for task, first in base.items()
            for turn, content in enumerate((*first.values(), *follow_ups.get(task, {}).values()), 1)
        ]
    )


def _answers(paths: list[Path], kind: type[Answer]) -> Answers:
    answers: Answers = {}
    for path in paths:
        for place, row in read_models(path, kind, _lines(path)):
            name = getattr(row, "instruction", BASE)
            answer = answers.setdefault(row.task, {}).setdefault(name, row.completion)
            if answer != row.completion:
                which = "base answer" if name == BASE else f"answer for {name!r}"
                raise SourceUnreadable(
                    f"{place}: task {row.task} has a second {which}. Remove one of the two rows"
                )
    return answers


def _lines(path: Path) -> Iterator[Line | Fault]:
    """Yield a file's rows: one for each line, or one JSON array despite the suffix `.jsonl`."""
    lines = read_lines(path)
    first = next(lines, None)
    if isinstance(first, Line) and first.content.startswith(b"["):
        try:
            rows = json.loads(path.read_bytes())
        except (ValueError, RecursionError, OSError) as fault:
            yield Fault(first.number, "broken_json", str(fault))
            return
        yield from (Line(n, json.dumps(row).encode()) for n, row in enumerate(rows, 1))
        return
    if first is not None:
        yield first
    yield from lines


def _answer_files(experiments: Path, part: str, model_name: str) -> list[Path]:
    folder = experiments / part / model_name
    if not (experiments / BASE).is_dir() or not (experiments / N_ROUND).is_dir():
        raise SourceUnreadable(
            f"{experiments} contains neither the folders {BASE} and {N_ROUND}, nor a folder "
            "for each"
            " model that contains them. Pass function/Experiments of CodeIF-Bench's repository, or"
            " repo/Experiments/level_1 for repository tasks"
        )
    names = (_folder_names(experiments / part) for part in (BASE, N_ROUND))
    models = tuple(sorted(set.intersection(*names)))
    if model_name not in models:
        raise UnknownName("published model", model_name, models)
    paths = sorted(
        p
        for p in folder.iterdir()
        if p.name.endswith(SUFFIXES) and not p.name.endswith(_VERDICT_SUFFIXES)
    )
    if not paths:
        raise SourceUnreadable(
            f"{folder} holds no answers: it needs .jsonl[.gz] files other than *_results.jsonl"
        )
    return paths


def _folder_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()


def is_of_repositories(folder: Path) -> bool:
    """Return True if a folder of published runs has the layout of repository tasks.

    That layout has a folder for each model.
    """
    return bool(repository_models(folder))


def repository_models(folder: Path) -> tuple[str, ...]:
    """Return the models with base and n_round answers to repository tasks, sorted."""
    return tuple(
        sorted(
            name
            for name in _folder_names(folder)
            if all((folder / name / part / _ANSWERS).is_file() for part in (BASE, N_ROUND))
        )
    )


def _repository_follow_ups(folder: Path) -> Answers:
    return _answers([folder / N_ROUND / _ANSWERS], _RepositoryFollowUp)


def published_turns(source: Path) -> Mapping[str, tuple[str, ...]]:
    """Return namespace -> instructions of the published runs, in order of turns.

    All models of the published runs have the same turns.

    Raises:
        SourceUnreadable: `source` contains no published runs.
    """
    for folder in (source / place for place in _PLACES):
        for model in repository_models(folder):
            follow_ups = _repository_follow_ups(folder / model)
            return {str(name): tuple(texts) for name, texts in follow_ups.items()}
    places = ", ".join(str(source / place) for place in _PLACES)
    raise SourceUnreadable(
        f"dataset version {LEVEL_1} takes its turns from the published runs, and {places} contains"
        " none. Pass the folder of CodeIF-Bench's repository"
    )


def recorded_data(folder: Path) -> tuple[Path, str] | None:
    """Return the task files of published runs and their dataset version.

    Returns None if the folder is not inside a copy of upstream's repository.
    """
    above = folder.absolute().parent.parent
    if is_of_repositories(folder):
        return (above, LEVEL_1) if list(above.glob("L_1_part_2*")) else None
    return (above, "v0") if (above / "v0" / "function").is_dir() else None
