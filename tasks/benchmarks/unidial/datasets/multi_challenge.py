"""MultiChallenge (Deshpande et al. 2025): the last answer of a talk, held to one yes-or-no criterion."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.unidial.datasets.source import Dataset, Read, file_name, matching, read_each
from tasks.benchmarks.unidial.normal import DialogConfig, NormalDialog, asked, measured, said

RUBRIC = "multi_challenge_evaluation"


def find(folder: Path) -> Sequence[Path]:
    """`benchmark_questions.jsonl`."""
    return matching(folder, "benchmark_questions.jsonl")


def read(files: Sequence[Path]) -> Iterator[Read]:
    """One dialogue a line: `{"QUESTION_ID", "AXIS", "CONVERSATION", "TARGET_QUESTION", "PASS_CRITERIA"}`."""
    return read_each(files, _dialog)


def _dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    axis = row["AXIS"]
    turns = [
        said(
            item["role"], item["content"], **({"axis": axis} if item["role"] == "assistant" else {})
        )
        for item in row["CONVERSATION"]
    ]
    judged = measured("llm_judge", template_name=RUBRIC, criteria=row["TARGET_QUESTION"])
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={
            "question_id": row["QUESTION_ID"],
            "source_file": file_name(path),
            "line_index": line,
        },
        dialog_labels={"task_type": axis},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=[*turns, asked(None, judged)],
    )


DATASET = Dataset(
    "multi_challenge", "MultiChallenge: the last answer against a criterion", find, read, (RUBRIC,)
)
