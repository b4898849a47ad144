"""MathChat (Liang et al. 2024): follow-up questions, error correction, error analysis, problem generation."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.unidial.datasets.source import Dataset, Read, file_name, matching, read_each
from tasks.benchmarks.unidial.normal import DialogConfig, MetricConfig, NormalDialog, NormalTurn, asked, measured, said

FILES = {
    "follow_up.jsonl": "follow_up",
    "error_correction.jsonl": "error_correction",
    "error_analysis.jsonl": "error_analysis",
    "P2P_Generation.jsonl": "p2p_generation",
}
"""In the order in which their dialogues are numbered."""
RUBRICS = ("math_chat_error_analysis", "math_chat_p2p_generation")
_SPEAKER = re.compile(r"\s*([AB]):")
_SOLVE = "Solve this problem: "
_TEACHER = "Let us swap seats: you set me a math problem and I solve it. Check my solution, and mend it where it is wrong."
_GENERATE = (
    "I will show you a seed problem. Write a new math problem that takes its subject further, or that needs the same mathematics"
    " in other surroundings, and give a detailed solution with it."
)
_READY = "Understood. What is the seed problem?"


def find(folder: Path) -> Sequence[Path]:
    """The files of the four tasks, as many as there are."""
    return matching(folder, *FILES)


def read(files: Sequence[Path]) -> Iterator[Read]:
    """One dialogue a line of each file."""
    return read_each(files, _dialog)


def spoken(text: str) -> tuple[list[str], list[str]]:
    """What A says, and what B says."""
    parts = _SPEAKER.split(text)
    said_by: dict[str, list[str]] = {"A": [], "B": []}
    for name, words in zip(parts[1::2], parts[2::2], strict=True):
        said_by[name].append(words.strip())
    return said_by["A"], said_by["B"]


def _dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    file = file_name(path)
    task = FILES[file]
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={"source_file": file, "line_index": line},
        dialog_labels={"task_type": task},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=_TURNS[task](row),
    )


def _follow_up(row: dict[str, Any]) -> list[NormalTurn]:
    match = measured("numeric_match")
    questions, answers = spoken(row["followup"])
    turns = [said("user", _SOLVE + row["question"]), asked(row["answer"], match)]
    for place, question in enumerate(questions):
        turns += [said("user", question), asked(answers[place] if place < len(answers) else None, match)]
    return turns


def _attempt(row: dict[str, Any]) -> tuple[list[NormalTurn], str]:
    """The problem, said by the assistant, and the user's wrong attempt."""
    problems, attempts = spoken(row["error_correction"])
    return [said("user", _TEACHER), said("assistant", problems[0]), said("user", attempts[0])], attempts[0]


def _error_correction(row: dict[str, Any]) -> list[NormalTurn]:
    return [*_attempt(row)[0], asked(row["answer"], measured("numeric_match"))]


def _error_analysis(row: dict[str, Any]) -> list[NormalTurn]:
    turns, attempt = _attempt(row)
    source = {"task_name": "error_analysis", "question": row["question"], "wrong_attempt": attempt}
    return [*turns, asked(row["answer"], source=source)]


def _p2p_generation(row: dict[str, Any]) -> list[NormalTurn]:
    seed = f"Seed problem: {row['question']} Solution: {row['answer']}\n"
    source = {"task_name": "p2p_generation", "seed_problem": row["question"], "seed_solution": row["answer"]}
    opening = [said("user", _GENERATE), said("assistant", _READY), said("user", seed)]
    return [*opening, asked(row["new_problem"], source=source)]


_TURNS: dict[str, Callable[[dict[str, Any]], list[NormalTurn]]] = {
    "follow_up": _follow_up,
    "error_correction": _error_correction,
    "error_analysis": _error_analysis,
    "p2p_generation": _p2p_generation,
}


def metrics_of(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """A judge for the two tasks that are rated."""
    shown = {name: value for name, value in source.items() if name != "task_name"}
    template = f"math_chat_{source.get('task_name', '')}"
    return (measured("llm_judge", template_name=template, **shown),) if template in RUBRICS else ()


DATASET = Dataset(
    "mathchat",
    "MathChat: follow-up questions, error correction and analysis, problem generation; reference history",
    find,
    read,
    RUBRICS,
    metrics_of,
)
