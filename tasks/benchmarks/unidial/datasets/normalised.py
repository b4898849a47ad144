"""Dialogues in UniDial-EvalKit's own normalised JSON, one a file `N.json`; also those of a run, with its answers filled in."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.benchmarks.raw_lines import BadRow, validated
from tasks.benchmarks.unidial.datasets.source import Read, matching, whole_json
from tasks.benchmarks.unidial.normal import NormalDialog

GENERATED, META = "generated", "_meta.json"


def find(folder: Path) -> Sequence[Path]:
    """`N.json` files of dialogues, in the order of their numbers; those of a run lie in `generated` below its folder."""
    for place in (folder / GENERATED, folder):
        files = [
            path
            for path in matching(place, "[0-9]*.json")
            if re.fullmatch(r"\d+\.json(\.gz)?", path.name)
        ]
        if files and _is_dialogue(files[0]):
            return sorted(files, key=lambda path: int(path.name.partition(".")[0]))
    return ()


def _is_dialogue(path: Path) -> bool:
    try:
        held = whole_json(path)
    except BadRow:
        return True  # the quarantine says what is wrong
    return isinstance(held, dict) and "dialog_turns" in held


def dataset_name(folder: Path) -> str:
    """The dataset's name as `_meta.json` tells it; empty without."""
    try:
        return str(json.loads((folder / META).read_text(encoding="utf-8"))["benchmark_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def read(files: Sequence[Path]) -> Iterator[Read]:
    """One dialogue a file."""
    for path in files:
        try:
            held = whole_json(path)
            if not isinstance(held, dict):
                raise BadRow("not_an_object", f"the file holds a {type(held).__name__}")
            yield Read(
                path, 1, _with_known_answers(validated(NormalDialog, held)), is_normalised=True
            )
        except BadRow as bad:
            yield Read(path, 0 if bad.reason == "unreadable_file" else 1, bad)


def _with_known_answers(dialog: NormalDialog) -> NormalDialog:
    """Return the dialogue. Its turn ids need not be positions, but each answer's id is its alone: rows of scores name it.

    Raises:
        BadRow: duplicate_turn_id.
    """
    n_turns = Counter(turn.turn_id for turn in dialog.dialog_turns)
    shared = [
        turn.turn_id
        for turn in dialog.dialog_turns
        if turn.is_generated and n_turns[turn.turn_id] > 1
    ]
    if shared:
        raise BadRow("duplicate_turn_id", f"turn_id {shared[0]} is an answer's and another turn's")
    return dialog
