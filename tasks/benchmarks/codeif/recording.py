"""Import of upstream's published answers of a model (`base/NAME`, `n_round/NAME`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import SourceUnreadable, UnknownName
from tasks.benchmarks.codeif.raw_row import StrategyName
from tasks.benchmarks.codeif.repositories.repository_recording import (
    LEVEL_1,
    is_of_repositories,
    repository_recording,
)
from tasks.benchmarks.codeif.strategies import problem_id
from tasks.benchmarks.raw_rows import SUFFIXES, BadRow, Fault, parse_object, read_lines
from tasks.language.recorded_model import RecordedAnswer

BASE, N_ROUND = "base", "n_round"
_VERDICT_SUFFIXES = tuple(f"_results{suffix}" for suffix in SUFFIXES)
_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


class _BaseAnswer(BaseModel):
    model_config = _RAW

    task_id: int = Field(ge=0)
    completion: str


class _FollowUpAnswer(_BaseAnswer):
    requirement: StrategyName


Row = TypeVar("Row", bound=_BaseAnswer)


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
        return repository_recording(folder, model)
    base = _base_answers(_answer_files(folder, BASE, model))
    follow_ups = _follow_ups(_answer_files(folder, N_ROUND, model), base)
    return iter(
        tuple(
            RecordedAnswer(problem_id=problem_id(task), turn=turn, content=content)
            for task, first in base.items()
            for turn, content in enumerate((first, *follow_ups.get(task, {}).values()), 1)
        )
    )


def published_models(experiments: Path) -> tuple[str, ...]:
    """Return the models that have base and n_round answers, sorted."""
    return tuple(
        sorted(set.intersection(*(_folder_names(experiments / part) for part in (BASE, N_ROUND))))
    )


def _folder_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()


def _answer_files(experiments: Path, part: str, model_name: str) -> tuple[Path, ...]:
    folder = experiments / part / model_name
    if not (experiments / BASE).is_dir() or not (experiments / N_ROUND).is_dir():
        raise SourceUnreadable(
            f"{experiments} contains neither the folders {BASE} and {N_ROUND}, nor a folder "
            "for each"
            " model that contains them. Pass function/Experiments of CodeIF-Bench's repository, or"
            " repo/Experiments/level_1 for repository tasks"
        )
    if model_name not in published_models(experiments):
        raise UnknownName("published model", model_name, published_models(experiments))
    paths = sorted(
        p
        for p in folder.iterdir()
        if p.name.endswith(SUFFIXES) and not p.name.endswith(_VERDICT_SUFFIXES)
    )
    if not paths:
        raise SourceUnreadable(
            f"{folder} holds no answers: it needs .jsonl[.gz] files other than *_results.jsonl"
        )
    return tuple(paths)


def _base_answers(paths: tuple[Path, ...]) -> dict[int, str]:
    answers: dict[int, str] = {}
    for place, row in _rows(paths, _BaseAnswer):
        if answers.setdefault(row.task_id, row.completion) != row.completion:
            raise SourceUnreadable(
                f"{place}: task {row.task_id} has a second base answer. Remove one of the two rows"
            )
    return answers


def _follow_ups(paths: tuple[Path, ...], base: dict[int, str]) -> dict[int, dict[str, str]]:
    answers: dict[int, dict[str, str]] = {}
    for place, row in _rows(paths, _FollowUpAnswer):
        if row.task_id not in base:
            raise SourceUnreadable(
                f"{place}: task {row.task_id} has no base answer, so its turns have no numbers. Add"
                " the base answer, or remove the row"
            )
        if (
            answers.setdefault(row.task_id, {}).setdefault(row.requirement, row.completion)
            != row.completion
        ):
            raise SourceUnreadable(
                f"{place}: task {row.task_id} has a second answer for {row.requirement!r}. "
                "Remove one"
                " of the two rows"
            )
    return answers


def _rows(paths: tuple[Path, ...], kind: type[Row]) -> Iterator[tuple[str, Row]]:
    for path in paths:
        for line in read_lines(path):
            place = f"{path}:{line.number}"
            if isinstance(line, Fault):
                raise SourceUnreadable(f"{place}: {line.detail}")
            try:
                yield place, kind.model_validate(parse_object(line.content))
            except BadRow as bad:
                raise SourceUnreadable(f"{place}: {bad.reason}: {bad.detail}") from None
            except ValidationError as invalid:
                first = invalid.errors()[0]
                raise SourceUnreadable(
                    f"{place}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
                ) from None


def recorded_data(folder: Path) -> tuple[Path, str] | None:
    """Return the task files of published runs and their dataset version.

    Returns None if the folder is not inside a copy of upstream's repository.
    """
    if is_of_repositories(folder):
        tasks_folder = folder.absolute().parent.parent
        return (tasks_folder, LEVEL_1) if list(tasks_folder.glob("L_1_part_2*")) else None
    repository = folder.absolute().parent.parent
    return (repository, "v0") if (repository / "v0" / "function").is_dir() else None
