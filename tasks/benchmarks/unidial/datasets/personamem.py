"""PersonaMem (Jiang et al. 2025, the 32k part): which of four answers fits a user who talked about many things before?"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_lines import BadRow
from tasks.benchmarks.unidial.datasets.source import Dataset, Read, attempt, objects
from tasks.benchmarks.unidial.normal import DialogConfig, MetricConfig, NormalDialog, NormalTurn, asked, measured, said

SPLIT = "32k"
START, END = "<final_answer>", "</final_answer>"
_ASK = "Which answer suits me best? End with (a), (b), (c) or (d) after the words <final_answer>."
_ABOUT = ("persona_id", "question_id", "shared_context_id", "topic", "distance_to_ref_proportion_in_context")


def find(folder: Path) -> Sequence[Path]:
    """`questions_32k.csv` and `shared_contexts_32k.jsonl`, both."""
    files = (folder / f"questions_{SPLIT}.csv", folder / f"shared_contexts_{SPLIT}.jsonl")
    return files if all(path.is_file() for path in files) else ()


def read(files: Sequence[Path]) -> Iterator[Read]:
    """One dialogue a question. It begins after as many messages of its context as the row says."""
    questions, shared = files
    contexts: dict[str, list[dict[str, Any]]] = {}
    for line, row, content in objects(shared):
        if isinstance(row, BadRow):
            yield Read(shared, line, row, content)
        else:
            contexts.update(row)
    try:
        with questions.open(encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                content = json.dumps(row, ensure_ascii=False)[:500].encode()
                yield Read(questions, number + 1, attempt(_dialog, row, number, contexts, files), content)
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        yield Read(questions, 0, BadRow("unreadable_file", f"{type(fault).__name__}: {fault}"))


def _dialog(
    row: Mapping[str, str], number: int, contexts: Mapping[str, Sequence[Mapping[str, Any]]], files: Sequence[Path]
) -> NormalDialog:
    before = contexts[row["shared_context_id"]][: int(row["end_index_in_shared_context"])]
    kept = [item for place, item in enumerate(before) if place == 0 or item["role"] != "system"]
    turns: list[NormalTurn] = [said(item["role"], item["content"]) for item in kept]
    question = f"{row['user_question_or_message']}\n\n{_ASK}\n\n{row['all_options']}"
    questions, shared = (path.name for path in files)
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={"question_file": questions, "context_file": shared, **{name: row[name] for name in _ABOUT}},
        dialog_labels={"task_type": SPLIT, "task_subtype": row["question_type"]},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=[*turns, said("user", question), asked(row["correct_answer"])],
    )


def metrics_of(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """The letter after the special words."""
    return (measured("exact_match", split_special_start_token=START, split_special_end_token=END),)


DATASET = Dataset(
    "personamem",
    "PersonaMem (32k): the answer that fits the user; reference history",
    find,
    read,
    metrics_of=metrics_of,
    says_source=False,
)
