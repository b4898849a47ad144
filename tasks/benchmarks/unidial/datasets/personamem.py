"""PersonaMem (Jiang et al. 2025): which of four answers suits a user after a long history?"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import BadRow
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    MetricConfig,
    NormalDialog,
    NormalTurn,
    Questions,
    RawDialog,
    answer_turn,
    attempt,
    metric_config,
    read_objects,
    scripted_turn,
    shown_text,
)

SPLITS = ("32k", "128k", "1M")
"""Lengths of the conversations, in the order of their dialogues' numbers."""
_UNSHARED = SPLITS[0]
"""First split, in which each row has its own context.

In the other splits rows share contexts, so the ids of their turns count the context's turns, too.
"""
START, END = "<final_answer>", "</final_answer>"
QUESTIONS = {
    "personamem_question": shown_text(
        "personamem",
        (
            "{message}\n\nWhich answer suits me best? End with (a), (b), (c) or (d) after the "
            "words <final_answer>.\n\n{options}"
        ),
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
    return tuple(path for pair in pairs if all(path.is_file() for path in pair) for path in pair)


def _pair(folder: Path, split: str) -> tuple[Path, Path]:
    return folder / f"questions_{split}.csv", folder / f"shared_contexts_{split}.jsonl"


def read(files: Sequence[Path], texts: Questions) -> Iterator[RawDialog]:
    """Yield one dialogue per question, which follows the stated number of context messages.

    Args:
        files: Either of a split's two files selects the split.
        texts: Texts of the questions.
    """
    numbers = count()
    splits = {
        match.group(1): path.parent for path in files if (match := _NAME.fullmatch(path.name))
    }
    for split, folder in splits.items():
        yield from _rows(_pair(folder, split), split, numbers, texts)


def _rows(
    files: tuple[Path, Path], split: str, numbers: Iterator[int], texts: Questions
) -> Iterator[RawDialog]:
    questions, shared = files
    conversations: dict[str, _Conversation] = {}
    for line, row, content in read_objects(shared):
        if isinstance(row, BadRow):
            yield RawDialog(shared, line, row, content)
        else:
            conversations.update((name, _Conversation(messages)) for name, messages in row.items())
    for line, row, content in read_objects(questions):
        dialog = (
            row
            if isinstance(row, BadRow)
            else attempt(_dialog, texts, row, next(numbers), conversations, files, split)
        )
        if isinstance(row, BadRow) or isinstance(dialog, BadRow) or split == _UNSHARED:
            yield RawDialog(questions, line, dialog, content)
            continue
        conversation = conversations[row["shared_context_id"]]
        n_history = conversation.n_history(_end(row))
        yield RawDialog(questions, line, dialog, content, conversation.history, n_history=n_history)


class _Conversation:
    """Conversation shared by many questions, each of which follows another of its messages."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._messages = messages
        self._history: list[NormalTurn] | None = None

    def until(self, end: int) -> list[NormalTurn]:
        """Return the turns before a message. Only the very first system message is included."""
        messages = enumerate(self._messages[:end])
        return [
            scripted_turn(message["role"], message["content"])
            for place, message in messages
            if place == 0 or message["role"] != "system"
        ]

    @property
    def history(self) -> list[NormalTurn]:
        """Return all turns except a system message. Every call returns the same object."""
        if self._history is None:
            turns = self.until(len(self._messages))
            self._history = turns[self._n_system :]
        return self._history

    def n_history(self, end: int) -> int:
        """Return the number of turns of the history before a message."""
        return sum(message["role"] != "system" for message in self._messages[:end])

    def opening(self, end: int) -> list[NormalTurn]:
        """Return the system message if the conversation begins with one."""
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
    conversations: Mapping[str, _Conversation],
    files: tuple[Path, Path],
    split: str,
) -> NormalDialog:
    conversation, end = conversations[row["shared_context_id"]], _end(row)
    shown = {"message": row["user_question_or_message"], "options": row["all_options"]}
    request = scripted_turn("user", texts.render("personamem_question", **shown))
    answer = answer_turn(row["correct_answer"])
    if split == _UNSHARED:
        turns_before = conversation.until(end)
    else:
        turns_before = conversation.opening(end)
        request.turn_id = len(turns_before) + len(
            conversation.history[: conversation.n_history(end)]
        )
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
        dialog_turns=[*turns_before, request, answer],
    )


def metrics_of(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Return the metric that compares the letter after the final-answer tag."""
    return (
        metric_config("exact_match", split_special_start_token=START, split_special_end_token=END),
    )


DATASET = Dataset(
    "personamem",
    "PersonaMem (32k, 128k, 1M): the answer that fits the user; reference history",
    find,
    read,
    metrics_of=metrics_of,
    says_source=False,
    questions=QUESTIONS,
)
