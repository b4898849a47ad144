"""MathChat (Liang et al. 2024): follow-up questions, error correction, error analysis, problem generation."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tasks.benchmarks.unidial.datasets.source import Dataset, Read, file_name, matching, read_each
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

FILES = {
    "follow_up.jsonl": "follow_up",
    "error_correction.jsonl": "error_correction",
    "error_analysis.jsonl": "error_analysis",
    "P2P_Generation.jsonl": "p2p_generation",
}
"""In the order in which their dialogues are numbered."""
RUBRICS = ("math_chat_error_analysis", "math_chat_p2p_generation")
_SPEAKER = re.compile(r"\s*([AB]):")
QUESTIONS = {
    "mathchat_problem": shown_text("mathchat", "Solve this problem: {question}", "question"),
    "mathchat_teacher": shown_text(
        "mathchat",
        "Let us swap seats: you set me a math problem and I solve it. Check my solution, and mend it where it is wrong.",
    ),
    "mathchat_generate": shown_text(
        "mathchat",
        "I will show you a seed problem. Write a new math problem that takes its subject further, or that needs the same"
        " mathematics in other surroundings, and give a detailed solution with it.",
    ),
    "mathchat_ready": shown_text("mathchat", "Understood. What is the seed problem?"),
    "mathchat_seed": shown_text(
        "mathchat", "Seed problem: {question} Solution: {solution}\n", "question", "solution"
    ),
}
"""`mathchat_teacher` opens error correction and analysis; generate, ready and seed are the rounds of problem generation."""


def find(folder: Path) -> Sequence[Path]:
    """The files of the four tasks, as many as there are."""
    return matching(folder, *FILES)


def read(files: Sequence[Path], questions: Questions) -> Iterator[Read]:
    """Yield one dialogue a line of each file."""
    return read_each(files, partial(_dialog, questions))


def spoken(text: str) -> tuple[list[str], list[str]]:
    """What A says, and what B says."""
    parts = _SPEAKER.split(text)
    said_by: dict[str, list[str]] = {"A": [], "B": []}
    for name, words in zip(parts[1::2], parts[2::2], strict=True):
        said_by[name].append(words.strip())
    return said_by["A"], said_by["B"]


def _dialog(
    questions: Questions, row: dict[str, Any], number: int, path: Path, line: int
) -> NormalDialog:
    file = file_name(path)
    task = FILES[file]
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={"source_file": file, "line_index": line},
        dialog_labels={"task_type": task},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=_TURNS[task](row, questions),
    )


def _follow_up(row: dict[str, Any], texts: Questions) -> list[NormalTurn]:
    match = measured("numeric_match")
    questions, answers = spoken(row["followup"])
    turns = [
        said("user", texts.render("mathchat_problem", question=row["question"])),
        asked(row["answer"], match),
    ]
    for place, question in enumerate(questions):
        turns += [
            said("user", question),
            asked(answers[place] if place < len(answers) else None, match),
        ]
    return turns


def _attempt(row: dict[str, Any], texts: Questions) -> tuple[list[NormalTurn], str]:
    """The problem, said by the assistant, and the user's wrong attempt."""
    problems, attempts = spoken(row["error_correction"])
    return [
        said("user", texts.render("mathchat_teacher")),
        said("assistant", problems[0]),
        said("user", attempts[0]),
    ], attempts[0]


def _error_correction(row: dict[str, Any], texts: Questions) -> list[NormalTurn]:
    return [*_attempt(row, texts)[0], asked(row["answer"], measured("numeric_match"))]


def _error_analysis(row: dict[str, Any], texts: Questions) -> list[NormalTurn]:
    turns, attempt = _attempt(row, texts)
    source = {"task_name": "error_analysis", "question": row["question"], "wrong_attempt": attempt}
    return [*turns, asked(row["answer"], source=source)]


def _p2p_generation(row: dict[str, Any], texts: Questions) -> list[NormalTurn]:
    seed = texts.render("mathchat_seed", question=row["question"], solution=row["answer"])
    source = {
        "task_name": "p2p_generation",
        "seed_problem": row["question"],
        "seed_solution": row["answer"],
    }
    opening = [
        said("user", texts.render("mathchat_generate")),
        said("assistant", texts.render("mathchat_ready")),
        said("user", seed),
    ]
    return [*opening, asked(row["new_problem"], source=source)]


_TURNS: dict[str, Callable[[dict[str, Any], Questions], list[NormalTurn]]] = {
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
    questions=QUESTIONS,
)
