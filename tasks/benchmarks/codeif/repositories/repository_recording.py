"""Upstream's published answers to repository tasks, and their turns.

The files lie in `level_1/MODEL/base` and `level_1/MODEL/n_round`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from schemas.errors import SourceUnreadable, UnknownName
from tasks.benchmarks.codeif.repositories.raw_repository import StrategyName
from tasks.benchmarks.raw_rows import Fault, parse_object, read_lines
from tasks.language.recorded_model import RecordedAnswer

LEVEL_1 = "level_1"
"""Dataset version: the current repository tasks of L1 with the turns of the published runs, which
left some out."""
_PLACES = ("Experiments/level_1", "repo/Experiments/level_1")
_ANSWERS = "result.jsonl"
_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


class _BaseAnswer(BaseModel):
    model_config = _RAW

    namespace: str
    completion: str


class _FollowUp(_BaseAnswer):
    type: StrategyName


Row = TypeVar("Row", bound=_BaseAnswer)


def is_of_repositories(folder: Path) -> bool:
    """Return True if a folder of published runs has the layout of repository tasks.

    That layout has a folder for each model.
    """
    return bool(repository_models(folder))


def repository_models(folder: Path) -> tuple[str, ...]:
    """Return the models with base and n_round answers, sorted."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return tuple(
        sorted(
            path.name
            for path in paths
            if all((path / p / _ANSWERS).is_file() for p in ("base", "n_round"))
        )
    )


def repository_recording(folder: Path, model: str) -> Iterator[RecordedAnswer]:
    """Return the answers of one model: base is turn 1, n_round rows are later turns.

    Raises:
        UnknownName: no such model.
        SourceUnreadable: a file contains rows of another form.
    """
    if model not in repository_models(folder):
        raise UnknownName("published model", model, repository_models(folder))
    answers = {
        name: [text] for name, text in _base_answers(folder / model / "base" / _ANSWERS).items()
    }
    for name, texts in _follow_ups(folder / model).items():
        if name not in answers:
            raise SourceUnreadable(
                f"{folder / model}: {name} has no base answer, so its turns have no numbers. "
                "Add the"
                " base answer, or remove its n_round rows"
            )
        answers[name] += texts.values()
    return (
        RecordedAnswer(problem_id=f"repo/{name}", turn=turn, content=content)
        for name, texts in answers.items()
        for turn, content in enumerate(texts, 1)
    )


def published_turns(source: Path) -> Mapping[str, tuple[str, ...]]:
    """Return namespace -> instructions of the published runs, in order of turns.

    All models of the published runs have the same turns.

    Raises:
        SourceUnreadable: `source` contains no published runs.
    """
    for folder in (source / place for place in _PLACES):
        for model in repository_models(folder):
            return {name: tuple(texts) for name, texts in _follow_ups(folder / model).items()}
    places = ", ".join(str(source / place) for place in _PLACES)
    raise SourceUnreadable(
        f"dataset version {LEVEL_1} takes its turns from the published runs, and {places} contains"
        " none. Pass the folder of CodeIF-Bench's repository"
    )


def _base_answers(path: Path) -> dict[str, str]:
    answers: dict[str, str] = {}
    for row in _rows(path, _BaseAnswer):
        if answers.setdefault(row.namespace, row.completion) != row.completion:
            raise SourceUnreadable(
                f"{path}: {row.namespace} has a second base answer. Remove one of the two rows"
            )
    return answers


def _follow_ups(folder: Path) -> dict[str, dict[str, str]]:
    """Return namespace -> instruction -> answer; verbatim repetitions of a row count once."""
    path = folder / "n_round" / _ANSWERS
    answers: dict[str, dict[str, str]] = {}
    for row in _rows(path, _FollowUp):
        if (
            answers.setdefault(row.namespace, {}).setdefault(row.type, row.completion)
            != row.completion
        ):
            raise SourceUnreadable(
                f"{path}: {row.namespace} has a second answer for {row.type!r}. Remove one "
                "of the two"
                " rows"
            )
    return answers


def _rows(path: Path, kind: type[Row]) -> list[Row]:
    """Return a file's rows: one for each line, or one JSON array despite the suffix `.jsonl`."""
    try:
        return [kind.model_validate(row) for row in _raw_rows(path)]
    except (ValueError, RecursionError, OSError) as fault:
        raise SourceUnreadable(f"{path}: {str(fault).partition(chr(10))[0]}") from None


def _raw_rows(path: Path) -> Iterator[object]:
    content = path.read_bytes()
    if content.lstrip().startswith(b"["):
        yield from json.loads(content)
        return
    for line in read_lines(path):
        if isinstance(line, Fault):
            raise ValueError(line.detail)
        yield parse_object(line.content)
