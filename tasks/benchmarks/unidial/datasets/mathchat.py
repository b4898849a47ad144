"""MathChat (Liang et al. 2024): follow-up questions, error correction and analysis, generation."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import matching
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    MetricConfig,
    NormalDialog,
    NormalTurn,
    Questions,
    answer_turn,
    file_name,
    metric_config,
    read_each,
    scripted_turn,
    shown_text,
)

FILES = {
    "follow_up.jsonl": "follow_up",
    "error_correction.jsonl": "error_correction",
    "error_analysis.jsonl": "error_analysis",
    "P2P_Generation.jsonl": "p2p_generation",
}
"""Tasks by file, in the order of their dialogues' numbers."""
RUBRICS = ("math_chat_error_analysis", "math_chat_p2p_generation")
_SPEAKER = re.compile(r"\s*([AB]):")
QUESTIONS = {
    "mathchat_problem": shown_text("mathchat", "Solve this problem: {question}", "question"),
    "mathchat_teacher": shown_text(
        "mathchat",
        (
            "Let us swap seats: you set me a math problem and I solve it. Check my solution, and "
            "mend it where it is wrong."
        ),
    ),
    "mathchat_generate": shown_text(
        "mathchat",
        "I will show you a seed problem. Write a new math problem that takes its subject "
        "further, or that needs the same"
        " mathematics in other surroundings, and give a detailed solution with it.",
    ),
    "mathchat_ready": shown_text("mathchat", "Understood. What is the seed problem?"),
    "mathchat_seed": shown_text(
        "mathchat", "Seed problem: {question} Solution: {solution}\n", "question", "solution"
    ),
}
"""`mathchat_teacher` opens error correction and analysis.

The texts `generate`, `ready` and `seed` are the rounds of problem generation.
"""


def utterances(text: str) -> tuple[list[str], list[str]]:
    """Return the utterances of speaker A and those of speaker B."""
    parts = _SPEAKER.split(text)
    by_speaker: dict[str, list[str]] = {"A": [], "B": []}
    for name, words in zip(parts[1::2], parts[2::2], strict=True):
        by_speaker[name].append(words.strip())
    return by_speaker["A"], by_speaker["B"]


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
    match = metric_config("numeric_match")
    questions, answers = utterances(row["followup"])
    turns = [
        scripted_turn("user", texts.render("mathchat_problem", question=row["question"])),
        answer_turn(row["answer"], match),
    ]
    for place, question in enumerate(questions):
        turns += [
            scripted_turn("user", question),
            answer_turn(answers[place] if place < len(answers) else None, match),
        ]
    return turns


def _attempt(row: dict[str, Any], texts: Questions) -> tuple[list[NormalTurn], str]:
    """Return the problem posed by the assistant and the user's wrong attempt."""
    problems, attempts = utterances(row["error_correction"])
    return [
        scripted_turn("user", texts.render("mathchat_teacher")),
        scripted_turn("assistant", problems[0]),
        scripted_turn("user", attempts[0]),
    ], attempts[0]


def _error_correction(row: dict[str, Any], texts: Questions) -> list[NormalTurn]:
    return [*_attempt(row, texts)[0], answer_turn(row["answer"], metric_config("numeric_match"))]


def _error_analysis(row: dict[str, Any], texts: Questions) -> list[NormalTurn]:
    turns, attempt = _attempt(row, texts)
    source = {"task_name": "error_analysis", "question": row["question"], "wrong_attempt": attempt}
    return [*turns, answer_turn(row["answer"], source=source)]


def _p2p_generation(row: dict[str, Any], texts: Questions) -> list[NormalTurn]:
    seed = texts.render("mathchat_seed", question=row["question"], solution=row["answer"])
    source = {
        "task_name": "p2p_generation",
        "seed_problem": row["question"],
        "seed_solution": row["answer"],
    }
    opening = [
        scripted_turn("user", texts.render("mathchat_generate")),
        scripted_turn("assistant", texts.render("mathchat_ready")),
        scripted_turn("user", seed),
    ]
    return [*opening, answer_turn(row["new_problem"], source=source)]


_TURNS: dict[str, Callable[[dict[str, Any], Questions], list[NormalTurn]]] = {
    "follow_up": _follow_up,
    "error_correction": _error_correction,
    "error_analysis": _error_analysis,
    "p2p_generation": _p2p_generation,
}


def metrics_of(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Return the judge metric of the two rated tasks."""
    shown = {name: value for name, value in source.items() if name != "task_name"}
    template = f"math_chat_{source.get('task_name', '')}"
    return (
        (metric_config("llm_judge", template_name=template, **shown),)
        if template in RUBRICS
        else ()
    )


DATASET = Dataset(
    "mathchat",
    (
        "MathChat: follow-up questions, error correction and analysis, problem generation; "
        "reference history"
    ),
    lambda folder: matching(folder, *FILES),
    lambda files, questions: read_each(files, partial(_dialog, questions)),
    RUBRICS,
    metrics_of,
    questions=QUESTIONS,
)
