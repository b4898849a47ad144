"""Upstream's published answers to repository tasks (`level_1/MODEL/base`, `level_1/MODEL/n_round`), and their turns."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from schemas.errors import SourceUnreadable, UnknownName
from tasks.benchmarks.codeif.repositories.raw_repository import StrategyName
from tasks.benchmarks.raw_lines import Fault, parse_object, read_lines
from tasks.language.recorded_model import RecordedAnswer

LEVEL_1 = "level_1"
"""Dataset version: today's repository tasks of L1 with the turns of these runs, which left some out."""
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
    """Whether a folder of published runs has a folder for each model, as those of repository tasks have."""
    return bool(repository_models(folder))


def repository_models(folder: Path) -> tuple[str, ...]:
    """Models with base and n_round answers, sorted."""
    found = folder.iterdir() if folder.is_dir() else ()
    return tuple(
        sorted(
            path.name
            for path in found
            if all((path / p / _ANSWERS).is_file() for p in ("base", "n_round"))
        )
    )


def repository_recording(folder: Path, model: str) -> Iterator[RecordedAnswer]:
    """Return the answers of one model: base is turn 1, its n_round rows turns 2 and up.

    Raises:
        UnknownName: no such model.
        SourceUnreadable: a file holds other rows.
    """
    if model not in repository_models(folder):
        raise UnknownName("published model", model, repository_models(folder))
    answers = {
        name: [text] for name, text in _base_answers(folder / model / "base" / _ANSWERS).items()
    }
    for name, texts in _follow_ups(folder / model).items():
        if name not in answers:
            raise SourceUnreadable(
                f"{folder / model}: {name} has no base answer, so its turns cannot be counted"
            )
        answers[name] += texts.values()
    return (
        RecordedAnswer(problem_id=f"repo/{name}", turn=turn, content=content)
        for name, texts in answers.items()
        for turn, content in enumerate(texts, 1)
    )


def published_turns(source: Path) -> Mapping[str, tuple[str, ...]]:
    """Namespace -> the instructions that the published runs gave, in their order; all models were given the same.

    Raises:
        SourceUnreadable: the runs do not lie beside the tasks.
    """
    for folder in (source / place for place in _PLACES):
        for model in repository_models(folder):
            return {name: tuple(texts) for name, texts in _follow_ups(folder / model).items()}
    places = ", ".join(str(source / place) for place in _PLACES)
    raise SourceUnreadable(
        f"dataset version {LEVEL_1} takes its turns from the published runs: none in {places}"
    )


def _base_answers(path: Path) -> dict[str, str]:
    answers: dict[str, str] = {}
    for row in _rows(path, _BaseAnswer):
        if answers.setdefault(row.namespace, row.completion) != row.completion:
            raise SourceUnreadable(
                f"{path}: {row.namespace} has a second base answer. Leave one of them out"
            )
    return answers


def _follow_ups(folder: Path) -> dict[str, dict[str, str]]:
    """Namespace -> instruction -> answer; a row that repeats an earlier one word for word counts once."""
    path = folder / "n_round" / _ANSWERS
    answers: dict[str, dict[str, str]] = {}
    for row in _rows(path, _FollowUp):
        if (
            answers.setdefault(row.namespace, {}).setdefault(row.type, row.completion)
            != row.completion
        ):
            raise SourceUnreadable(
                f"{path}: {row.namespace} has a second answer for {row.type!r}. Leave one of them out"
            )
    return answers


def _rows(path: Path, kind: type[Row]) -> list[Row]:
    """A file's rows: a line each, or one JSON array in spite of its name."""
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
