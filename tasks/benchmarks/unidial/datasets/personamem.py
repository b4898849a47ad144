"""PersonaMem (Jiang et al. 2025): which of four answers fits a user who talked about many things before?"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_lines import BadRow
from tasks.benchmarks.unidial.datasets.source import Dataset, Read, attempt, objects
from tasks.benchmarks.unidial.normal import (
    DialogConfig,
    MetricConfig,
    NormalDialog,
    NormalTurn,
    asked,
    measured,
    said,
)
from tasks.benchmarks.unidial.questions import Questions, shown_text

SPLITS = ("32k", "128k", "1M")
"""Lengths of the talks, in the order in which their dialogues are numbered."""
_UNSHARED = SPLITS[0]
"""Split whose rows have a context each, as they had before there were others: their ids depend on it."""
START, END = "<final_answer>", "</final_answer>"
QUESTIONS = {
    "personamem_question": shown_text(
        "personamem",
        "{message}\n\nWhich answer suits me best? End with (a), (b), (c) or (d) after the words <final_answer>.\n\n{options}",
        *("message", "options"),
    )
}
_ABOUT = (
    "persona_id",
    "question_id",
    "shared_context_id",
    "topic",
    "distance_to_ref_proportion_in_context",
)
_NAME = re.compile(r"(?:questions|shared_contexts)_(\w+)\.(?:csv|jsonl)")


def find(folder: Path) -> Sequence[Path]:
    """Return `questions_N.csv` and `shared_contexts_N.jsonl` of each split that has both."""
    pairs = (_pair(folder, split) for split in SPLITS)
    return tuple(path for pair in pairs if all(one.is_file() for one in pair) for path in pair)


def _pair(folder: Path, split: str) -> tuple[Path, Path]:
    return folder / f"questions_{split}.csv", folder / f"shared_contexts_{split}.jsonl"


def read(files: Sequence[Path], texts: Questions) -> Iterator[Read]:
    """Yield one dialogue a question. It begins after as many messages of its context as the row says.

    Args:
        files: any of a split's two files stands for both.
    """
    numbers = count()
    splits = {
        named.group(1): path.parent for path in files if (named := _NAME.fullmatch(path.name))
    }
    for split, folder in splits.items():
        yield from _rows(_pair(folder, split), split, numbers, texts)


def _rows(
    files: tuple[Path, Path], split: str, numbers: Iterator[int], texts: Questions
) -> Iterator[Read]:
    questions, shared = files
    talks: dict[str, _Talk] = {}
    for line, row, content in objects(shared):
        if isinstance(row, BadRow):
            yield Read(shared, line, row, content)
        else:
            talks.update((name, _Talk(messages)) for name, messages in row.items())
    try:
        with questions.open(encoding="utf-8", newline="") as file:
            for line, row in enumerate(csv.DictReader(file), 1):
                content = json.dumps(row, ensure_ascii=False)[:500].encode()
                made = attempt(_dialog, texts, row, next(numbers), talks, files, split)
                talk = (
                    None
                    if split == _UNSHARED or isinstance(made, BadRow)
                    else talks[row["shared_context_id"]]
                )
                if talk is None:
                    yield Read(questions, line, made, content)
                else:
                    yield Read(
                        questions,
                        line,
                        made,
                        content,
                        talk.history,
                        n_history=talk.n_history(_end(row)),
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        yield Read(questions, 0, BadRow("unreadable_file", f"{type(fault).__name__}: {fault}"))


class _Talk:
    """A talk that many questions share, each up to another message of it."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._messages = messages
        self._history: list[NormalTurn] | None = None

    def until(self, end: int) -> list[NormalTurn]:
        """Return the turns before this message. Of the system's messages the very first counts."""
        held = enumerate(self._messages[:end])
        return [
            said(one["role"], one["content"])
            for place, one in held
            if place == 0 or one["role"] != "system"
        ]

    @property
    def history(self) -> list[NormalTurn]:
        """All turns but a system's: the same object each time."""
        if self._history is None:
            turns = self.until(len(self._messages))
            self._history = turns[self._n_system :]
        return self._history

    def n_history(self, end: int) -> int:
        """Return how many turns of the history stand before this message."""
        return sum(one["role"] != "system" for one in self._messages[:end])

    def opening(self, end: int) -> list[NormalTurn]:
        """Return the system's message, where the talk begins with one."""
        return self.until(min(end, self._n_system))

    @property
    def _n_system(self) -> int:
        return int(bool(self._messages) and self._messages[0]["role"] == "system")


def _end(row: Mapping[str, str]) -> int:
    return int(row["end_index_in_shared_context"])


def _dialog(
    texts: Questions,
    row: Mapping[str, str],
    number: int,
    talks: Mapping[str, _Talk],
    files: tuple[Path, Path],
    split: str,
) -> NormalDialog:
    talk, end = talks[row["shared_context_id"]], _end(row)
    shown = {"message": row["user_question_or_message"], "options": row["all_options"]}
    request = said("user", texts.render("personamem_question", **shown))
    answer = asked(row["correct_answer"])
    if split == _UNSHARED:
        before = talk.until(end)
    else:
        before = talk.opening(end)
        request.turn_id = len(before) + len(talk.history[: talk.n_history(end)])
        answer.turn_id = request.turn_id + 1
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={
            "question_file": files[0].name,
            "context_file": files[1].name,
            **{name: row[name] for name in _ABOUT},
        },
        dialog_labels={"task_type": split, "task_subtype": row["question_type"]},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=[*before, request, answer],
    )


def metrics_of(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Return the letter after the special words as the one metric."""
    return (measured("exact_match", split_special_start_token=START, split_special_end_token=END),)


DATASET = Dataset(
    "personamem",
    "PersonaMem (32k, 128k, 1M): the answer that fits the user; reference history",
    find,
    read,
    metrics_of=metrics_of,
    says_source=False,
    questions=QUESTIONS,
)
