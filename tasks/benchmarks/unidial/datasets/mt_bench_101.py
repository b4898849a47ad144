"""MT-Bench-101 (Bai et al. 2024): thirteen abilities, rated by a judge after the golden history."""

from functools import partial
from pathlib import Path
from typing import Any

from tasks.benchmarks.raw_rows import matching
from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
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
TEMPLATE = "mtbench101_{}_evaluation"


def _dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    """Return the dialogue of a line `{"task", "id", "history": [{"user", "bot"}]}`."""
    task, turns = str(row["task"]), list[NormalTurn]()
    metric = metric_config("llm_judge", template_name=TEMPLATE.format(task.lower()), task=task)
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


DATASET = Dataset(
    "mt_bench_101",
    "MT-Bench-101: thirteen abilities of a dialogue; reference history",
    lambda folder: matching(folder, "mtbench101.jsonl"),
    partial(read_each, make=_dialog),
    ("mt_bench_101",),
)
