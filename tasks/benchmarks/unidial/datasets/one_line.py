"""Datasets with one dialogue a line.

- MT-Bench-101 (Bai et al. 2024): thirteen abilities, rated by a judge after the golden history.
- MultiChallenge (Deshpande et al. 2025): last answers, judged by one yes-or-no criterion.
- Multi-IF (He et al. 2024): verifiable instructions, added round by round in eight languages.
- SafeDialBench (Cao et al. 2026): attacks in conversation, with three ratings per answer.
"""

import json
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

OPENED_BY_SCRIPT = ("FR", "CR", "AR", "SA", "SC", "CM")
"""Abilities whose first round only sets the scene, so that its golden answer is scripted."""
COMPARED = ("MR", "GR")
"""Abilities whose judge sees the golden answer. The others have several good answers."""
MT_BENCH_TEMPLATE = "mtbench101_{}_evaluation"


def _mt_bench_dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    """Return the dialogue of a line `{"task", "id", "history": [{"user", "bot"}]}`."""
    task, turns = str(row["task"]), list[NormalTurn]()
    metric = metric_config(
        "llm_judge", template_name=MT_BENCH_TEMPLATE.format(task.lower()), task=task
    )
    for place, item in enumerate(row["history"]):
        scripted = place == 0 and task in OPENED_BY_SCRIPT
        turns += [
            scripted_turn("user", item["user"]),
            scripted_turn("assistant", item["bot"])
            if scripted
            else answer_turn(item["bot"], metric),
        ]
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={"raw_id": row["id"], "source_file": file_name(path), "line_index": line},
        dialog_labels={"task": task},
        dialog_eval_config=DialogConfig(use_reference_history=True),
        dialog_turns=turns,
    )


MT_BENCH_101 = Dataset(
    "mt_bench_101",
    "MT-Bench-101: thirteen abilities of a dialogue; reference history",
    lambda folder: matching(folder, "mtbench101.jsonl"),
    partial(read_each, make=_mt_bench_dialog),
    ("mt_bench_101",),
)


CRITERION_RUBRIC = "multi_challenge_evaluation"


def _multi_challenge_dialog(
    row: dict[str, Any], number: int, path: Path, line: int
) -> NormalDialog:
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
    judge_metric = metric_config(
        "llm_judge", template_name=CRITERION_RUBRIC, criteria=row["TARGET_QUESTION"]
    )
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


MULTI_CHALLENGE = Dataset(
    "multi_challenge",
    "MultiChallenge: the last answer against a criterion",
    lambda folder: matching(folder, "benchmark_questions.jsonl"),
    partial(read_each, make=_multi_challenge_dialog),
    (CRITERION_RUBRIC,),
)


MULTI_IF_ROUNDS = 3
INSTRUCTION_NAMES = {
    "change_case:english_capital": "change_case:capital_letter",
    "change_case:english_lowercase": "change_case:lowercase",
    "detectable_content:number_placeholders": "content:placeholder",
    "detectable_content:postscript": "content:postscript",
    "detectable_format:json_format": "format:json_format",
    "detectable_format:multiple_sections": "format:multiple_sections",
    "detectable_format:number_bullet_lists": "format:bullet_list",
    "detectable_format:number_highlighted_sections": "format:number_highlighted_sections",
    "detectable_format:title": "format:title",
    "startend:end_checker": "startend:end_phrase",
}
"""The toolkit's name of each IFEval instruction with a different name."""


def _multi_if_dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    turns = list[NormalTurn]()
    for place in range(1, MULTI_IF_ROUNDS + 1):
        if not row.get(f"turn_{place}_prompt"):
            break
        prompt = json.loads(row[f"turn_{place}_prompt"])
        metrics = _instruction_metrics(
            row[f"turn_{place}_instruction_id_list"], row[f"turn_{place}_kwargs"]
        )
        turns += [scripted_turn("user", prompt["content"]), answer_turn(None, *metrics)]
    return NormalDialog(
        dialog_id=number,
        dialog_raw_info={
            "raw_id": row.get("key", ""),
            "source_file": path.name,
            "line_index": line,
        },
        dialog_labels={"language": row.get("language", "en")},
        dialog_eval_config=DialogConfig(use_reference_history=False),
        dialog_turns=turns,
    )


def _instruction_metrics(names: str, arguments: str) -> list[MetricConfig]:
    parsed = [json.loads(item) if isinstance(item, str) else item for item in json.loads(arguments)]
    pairs: list[tuple[str, Any]] = list(zip(json.loads(names), parsed, strict=True))
    return [
        metric_config(
            "instruction_following", inst_name=INSTRUCTION_NAMES.get(name, name), inst_args=values
        )
        for name, values in pairs
    ]


MULTI_IF = Dataset(
    "multi_if",
    "Multi-IF: verifiable instructions in three rounds; on-policy history",
    lambda folder: sorted(folder.glob("multiIF_*.csv")),
    partial(read_each, make=_multi_if_dialog),
)


SAFETY_TEMPLATES = {
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
SAFETY_RUBRIC = "safedialbench"
_COMPLETE = ("datasets_en.jsonl", "datasets_zh.jsonl")
_TASKS = tuple(
    f"{task}.jsonl"
    for task in ("aggression", "ethics", "fairness", "legality", "morality", "privacy")
)
_LANGUAGES = ("english", "chinese")


def _find_safety_files(folder: Path) -> Sequence[Path]:
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


def _safety_dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
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


def _safety_metrics(source: dict[str, Any]) -> Sequence[MetricConfig]:
    """Return the judge metric for the task's kind of harm."""
    template = SAFETY_TEMPLATES.get(str(source.get("task", "")))
    return (metric_config("llm_judge", template_name=template),) if template else ()


SAFEDIALBENCH = Dataset(
    "safedialbench",
    "SafeDialBench: safety under attack; reference history",
    _find_safety_files,
    partial(read_each, make=_safety_dialog),
    (SAFETY_RUBRIC,),
    _safety_metrics,
)
