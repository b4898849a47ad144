"""Dialogues in UniDial-EvalKit's normalised JSON, one per file `N.json`.

Dialogues of a finished run contain its answers.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.benchmarks.raw_rows import BadRow, validated
from tasks.benchmarks.unidial.datasets.source import NormalDialog, RawDialog, numbered, read_json

GENERATED, META = "generated", "_meta.json"


def find(folder: Path) -> Sequence[Path]:
    """Return the `N.json` files of dialogues, by number.

    Those of a run are in its folder `generated`.
    """
    for place in (folder / GENERATED, folder):
        files = numbered(place)
        if files and _is_dialogue(files[0]):
            return files
    return ()


def _is_dialogue(path: Path) -> bool:
    try:
        content = read_json(path)
    except BadRow:
        return True  # the quarantine states the reason
    return isinstance(content, dict) and "dialog_turns" in content


def dataset_name(folder: Path) -> str:
    """Return the dataset's name in `_meta.json`, or ""."""
    try:
        return str(json.loads((folder / META).read_text(encoding="utf-8"))["benchmark_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def read(files: Sequence[Path]) -> Iterator[RawDialog]:
    """Yield one dialogue per file."""
    for path in files:
        try:
            content = read_json(path)
            if not isinstance(content, dict):
                raise BadRow("not_an_object", f"the file holds a {type(content).__name__}")
            yield RawDialog(
                path, 1, _with_unique_answers(validated(NormalDialog, content)), is_normalised=True
            )
        except BadRow as bad:
            yield RawDialog(path, 0 if bad.reason == "unreadable_file" else 1, bad)


def _with_unique_answers(dialog: NormalDialog) -> NormalDialog:
    """Return the dialogue if the id of each answer is unique, since rows of scores refer to it.

    Turn ids need not be positions.

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
        raise BadRow(
            "duplicate_turn_id", f"turn_id {shared[0]} belongs to an answer and to another turn"
        )
    return dialog
