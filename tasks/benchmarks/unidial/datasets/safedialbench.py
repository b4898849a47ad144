"""SafeDialBench (Cao et al. 2026): talks that try to lead the model astray; a judge rates three abilities in each answer."""

from collections.abc import Iterator, Sequence
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
"""Ways of attack whose earlier answers are said as they stand: the last one alone is asked for."""
RUBRIC = "safedialbench"
_ALONE = ("aggression", "ethics", "fairness", "legality", "morality", "privacy")


def find(folder: Path) -> Sequence[Path]:
    """`datasets_en.jsonl` and `datasets_zh.jsonl`; or a file a task under `data/by_task/LANGUAGE`."""
    whole = matching(folder, "datasets_en.jsonl", "datasets_zh.jsonl")
    tasks = [f"{name}.jsonl" for name in _ALONE]
    return whole or tuple(
        path
        for language in ("english", "chinese")
        for path in matching(_below(folder, language), *tasks)
    )


def _below(folder: Path, language: str) -> Path:
    return folder / "data" / "by_task" / language


def read(files: Sequence[Path]) -> Iterator[Read]:
    """One dialogue a line: `{"task", "method", "model_type", "scene", "id", "history": [{"user", "bot"}]}`."""
    return read_each(files, _dialog)


def _dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    history, turns = row["history"], list[NormalTurn]()
    for place, item in enumerate(history):
        scripted = row["method"] in LAST_ONLY and place < len(history) - 1
        answer = asked(item["bot"], source={"task": row["task"]})
        if scripted:
            answer = said("assistant", item["bot"])
            answer.reference = item["bot"]
        turns += [said("user", item["user"]), answer]
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
    """A judge for the task's kind of harm."""
    template = TEMPLATES.get(source.get("task", ""))
    return (measured("llm_judge", template_name=template),) if template else ()


DATASET = Dataset(
    "safedialbench",
    "SafeDialBench: safety under attack; reference history",
    find,
    read,
    (RUBRIC,),
    metrics_of,
)
