"""LongMemEval (Wu et al. 2024): one question after many dated sessions of user and assistant."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import BadRow, matching
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    NormalDialog,
    NormalTurn,
    RawDialog,
    answer_turn,
    attempt,
    file_name,
    metric_config,
    read_json_list,
    row_excerpt,
    scripted_turn,
)

RUBRIC = "longmemeval"
KINDS = (
    *(
        "abstention",
        "knowledge-update",
        "multi-session",
        "single-session-assistant",
        "single-session-preference",
    ),
    *("single-session-user", "temporal-reasoning"),
)
"""Kinds of questions. `abstention` is the kind of all questions that cannot be answered."""
PARTS = ("s", "m", "oracle")
"""Parts of the data, in the order of their dialogues' numbers.

They contain about 50 sessions, about 500 sessions, and only the sessions with the answer.
"""


def find(folder: Path) -> Sequence[Path]:
    """Return a file for each part: the cleaned one, or else that of the first release."""
    names = (
        (f"longmemeval_{part}_cleaned.json", f"longmemeval_{part}.json", f"longmemeval_{part}")
        for part in PARTS
    )
    paths = tuple(path for part in names for path in matching(folder, *part)[:1])
    return paths or matching(folder, "longmemeval_*.json")[:1]


def read(files: Sequence[Path]) -> Iterator[RawDialog]:
    """Yield one dialogue per element of a file's list, numbered over all files."""
    numbers = count()
    for path in files:
        try:
            for line, row in enumerate(read_json_list(path), 1):
                dialog = attempt(_dialog, row, next(numbers), file_name(path))
                yield RawDialog(path, line, dialog, row_excerpt(row))
        except BadRow as bad:
            yield RawDialog(path, 0, bad)


def _dialog(row: Mapping[str, Any], number: int, file: str) -> NormalDialog:
    turns, places = list[NormalTurn](), dict[str, list[int]]()
    sessions = zip(
        row["haystack_sessions"], row["haystack_dates"], row["haystack_session_ids"], strict=True
    )
    for index, (session, date, name) in enumerate(sessions):
        for place, item in enumerate(session):
            text = item["content"] if place else f"[{date}] {item['content']}"
            places.setdefault(name, []).append(len(turns))
            labels = {"raw_session_id": name, "raw_session_date": date, "raw_session_index": index}
            turns.append(scripted_turn(item["role"], text, **labels))
    kind, question, date = row["question_type"], row["question"], row.get("question_date", "")
    judge_metric = metric_config(
        "llm_judge",
        question_type=kind,
        abstention="_abs" in str(row["question_id"]),
        raw_question=question,
    )
    evidence = [place for name in row["answer_session_ids"] for place in places.get(name, [])]
    turns.append(
        scripted_turn("user", f"[{date}] {question}" if date else question, raw_question_date=date)
    )
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={"raw_id": row["question_id"], "source_file": file},
        dialog_labels={
            "task_type": "_".join(file.removesuffix(".json").split("_")[:2]),
            "task_subtype": kind,
        },
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=[*turns, answer_turn(str(row["answer"]), judge_metric, document=evidence)],
    )


DATASET = Dataset(
    "longmemeval",
    "LongMemEval: a question after many sessions; reference history",
    find,
    read,
    (RUBRIC,),
)
