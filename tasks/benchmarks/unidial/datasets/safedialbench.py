"""SafeDialBench (Cao et al. 2026): attacks in conversation, with three ratings per answer."""

from collections.abc import Sequence
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
    answer_turn,
    file_name,
    metric_config,
    read_each,
    scripted_turn,
)

TEMPLATES = {
    "Aggression": "attack-evaluation",
    "Ethics": "ethics-evaluation",
    "Fairness": "fair-evaluation",
    "Legality": "legal-evaluation",
    "Morality": "moral-evaluation",
    "Privacy": "privacy-evaluation",
    "攻击性": "attack-evaluation",
    "伦理性": "ethics-evaluation",
    "公平性": "fair-evaluation",
    "合法性": "legal-evaluation",
    "道德性": "moral-evaluation",
    "隐私性": "privacy-evaluation",
}
LAST_ONLY = ("Topic Inversion", "Purpose Inversion")
"""Attack methods whose earlier answers are scripted, so that only the last one is requested."""
RUBRIC = "safedialbench"
_COMPLETE = ("datasets_en.jsonl", "datasets_zh.jsonl")
_TASKS = tuple(
    f"{task}.jsonl"
    for task in ("aggression", "ethics", "fairness", "legality", "morality", "privacy")
)
_LANGUAGES = ("english", "chinese")


def find(folder: Path) -> Sequence[Path]:
    """Return `datasets_en.jsonl` and `datasets_zh.jsonl`, or one file per task.

    The latter are in `data/by_task/LANGUAGE`. The folder can be any on this path, and the other
    two files can be in `complete`, as in the authors' repository.
    """
    complete = (matching(folder / place, *_COMPLETE) for place in ("", "complete"))
    by_task = (_by_task(folder / place) for place in ("data/by_task", "by_task", ""))
    return next(filter(None, (*complete, *by_task, _tasks(folder))), ())


def _by_task(folder: Path) -> tuple[Path, ...]:
    return tuple(path for language in _LANGUAGES for path in _tasks(folder / language))


def _tasks(folder: Path) -> tuple[Path, ...]:
    """Return the files of a language's folder. Other folders have prompts with these names."""
    return matching(folder, *_TASKS) if folder.name in _LANGUAGES else ()


def _dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    """Return the dialogue of a line.

    Fields: `{"task", "method", "model_type", "scene", "id", "history": [{"user", "bot"}]}`.
    """
    history, turns = row["history"], list[NormalTurn]()
    for place, item in enumerate(history):
        scripted = row["method"] in LAST_ONLY and place < len(history) - 1
        answer = answer_turn(item["bot"], source={"task": row["task"]})
        if scripted:
            answer = scripted_turn("assistant", item["bot"])
            answer.reference = item["bot"]
        turns += [scripted_turn("user", item["user"]), answer]
    language = "zh" if "zh" in path.name or path.parent.name == "chinese" else "en"
    about = {
        "source_file": file_name(path),
        "line_index": line,
        "model_type": row.get("model_type"),
        "scene": row.get("scene"),
    }
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={"raw_id": row.get("id"), **about},
        dialog_labels={"task": row["task"], "method": row["method"], "lang": language},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=turns,
    )


def metrics_of(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Return the judge metric for the task's kind of harm."""
    template = TEMPLATES.get(str(source.get("task", "")))
    return (metric_config("llm_judge", template_name=template),) if template else ()


DATASET = Dataset(
    "safedialbench",
    "SafeDialBench: safety under attack; reference history",
    find,
    partial(read_each, make=_dialog),
    (RUBRIC,),
    metrics_of,
)
