"""Multi-IF (He et al. 2024): verifiable instructions, added round by round in eight languages."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from tasks.benchmarks.unidial.datasets.source import (
    Dataset,
    DialogConfig,
    MetricConfig,
    NormalDialog,
    NormalTurn,
    answer_turn,
    metric_config,
    read_each,
    scripted_turn,
)

ROUNDS = 3
NAMES = {
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


def _dialog(row: dict[str, Any], number: int, path: Path, line: int) -> NormalDialog:
    turns = list[NormalTurn]()
    for place in range(1, ROUNDS + 1):
        if not row.get(f"turn_{place}_prompt"):
            break
        prompt = json.loads(row[f"turn_{place}_prompt"])
        metrics = _metrics(row[f"turn_{place}_instruction_id_list"], row[f"turn_{place}_kwargs"])
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


def _metrics(names: str, arguments: str) -> list[MetricConfig]:
    parsed = [json.loads(item) if isinstance(item, str) else item for item in json.loads(arguments)]
    pairs: list[tuple[str, Any]] = list(zip(json.loads(names), parsed, strict=True))
    return [
        metric_config("instruction_following", inst_name=NAMES.get(name, name), inst_args=values)
        for name, values in pairs
    ]


DATASET = Dataset(
    "multi_if",
    "Multi-IF: verifiable instructions in three rounds; on-policy history",
    lambda folder: sorted(folder.glob("multiIF_*.csv")),
    partial(read_each, make=_dialog),
)
