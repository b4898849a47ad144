"""MultiChallenge (Deshpande et al. 2025): last answers, judged by one yes-or-no criterion."""

from functools import partial
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import matching
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    NormalDialog,
    answer_turn,
    file_name,
    metric_config,
    read_each,
    scripted_turn,
)

RUBRIC = "multi_challenge_evaluation"


def _dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    """Return the dialogue of a line.

    Fields: `{"QUESTION_ID", "AXIS", "CONVERSATION", "TARGET_QUESTION", "PASS_CRITERIA"}`.
    """
    axis = row["AXIS"]
    turns = [
        scripted_turn(
            item["role"], item["content"], **({"axis": axis} if item["role"] == "assistant" else {})
        )
        for item in row["CONVERSATION"]
    ]
    judge_metric = metric_config("llm_judge", template_name=RUBRIC, criteria=row["TARGET_QUESTION"])
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={
            "question_id": row["QUESTION_ID"],
            "source_file": file_name(path),
            "line_index": line,
        },
        dialog_labels={"task_type": axis},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=[*turns, answer_turn(None, judge_metric)],
    )


DATASET = Dataset(
    "multi_challenge",
    "MultiChallenge: the last answer against a criterion",
    lambda folder: matching(folder, "benchmark_questions.jsonl"),
    partial(read_each, make=_dialog),
    (RUBRIC,),
)
