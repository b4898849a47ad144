"""Staging the native format: personas of the user's own, rows that cannot be staged, ids."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import SourceUnreadable
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.talk2code import BENCHMARK
from tests.own_files import ROOT

ROW: dict[str, Any] = {
    "task_id": "t",
    "language": "python",
    "source": "algorithm",
    "problem": "Write `one()`, which returns 1.",
    "entry_point": "one",
    "reference": "def one(): return 1",
    "tests": ["assert one() == 1"],
    "dialogues": [
        {
            "persona": "hobbyist",
            "turns": [
                {"user": "I need a number.", "assistant": "Which one?"},
                {"user": "1, from one().", "assistant": "```python\ndef one(): return 1\n```"},
            ],
        }
    ],
}


def stage(folder: Path, *rows: Mapping[str, Any]) -> Staged:
    (folder / "tasks.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8"
    )
    return BENCHMARK.data.stage(folder, "dialogues")


def with_dialogue(**changes: Any) -> dict[str, Any]:
    return ROW | {"dialogues": [ROW["dialogues"][0] | changes]}


def test_a_persona_stands_in_the_id_and_the_labels_of_its_dialogue(tmp_path: Path) -> None:
    (dialog,) = stage(tmp_path, ROW).dialogs
    assert dialog.dialog_id == "t/intermediate/hobbyist"
    labels = dict(dialog.labels)
    assert (labels["level"], labels["archetype"]) == ("intermediate", "hobbyist")
    assert labels["persona.background"].startswith("taught themself")


def test_a_user_s_own_persona_lies_beside_the_data_and_changes_the_dialogue_s_digest(
    tmp_path: Path,
) -> None:
    before = stage(tmp_path, ROW).dialogs[0].row_digest
    (tmp_path / "personas").mkdir()
    bundled = (ROOT / "tasks/benchmarks/talk2code/personas/hobbyist.yaml").read_text(
        encoding="utf-8"
    )
    (tmp_path / "personas" / "nurse.yaml").write_text(
        bundled.replace("intermediate", "novice"), encoding="utf-8"
    )
    (dialog,) = stage(tmp_path, with_dialogue(persona="nurse")).dialogs
    assert dialog.dialog_id == "t/novice/nurse"
    assert dialog.row_digest != before
    (tmp_path / "personas" / "nurse.yaml").write_text("level: wise\n", encoding="utf-8")
    with pytest.raises(SourceUnreadable, match=r"nurse\.yaml"):
        stage(tmp_path, ROW)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROW | {"tests": []}, "empty_tests"),
        (ROW | {"language": "cobol"}, "unknown_language"),
        (with_dialogue(persona="oracle"), "unknown_persona"),
        (with_dialogue(turns=ROW["dialogues"][0]["turns"][:1]), "misplaced_code"),
        (with_dialogue(turns=ROW["dialogues"][0]["turns"][::-1]), "misplaced_code"),
        (ROW | {"dialogues": ROW["dialogues"] * 2}, "duplicate_dialogue"),
        ({name: value for name, value in ROW.items() if name != "reference"}, "missing_field"),
    ],
)
def test_a_row_that_cannot_be_staged_is_quarantined_with_its_reason(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    staged = stage(tmp_path, row, ROW | {"task_id": "u"})
    assert [bad.reason for bad in staged.quarantined] == [reason]
    assert [problem.problem_id for problem in staged.problems] == ["u"]
    assert staged.n_input == 2


def test_notes_on_entities_change_no_id(tmp_path: Path) -> None:
    turns = [turn | {"entities": ["Number"]} for turn in ROW["dialogues"][0]["turns"]]
    noted = stage(tmp_path, with_dialogue(turns=turns) | {"reference_entities": ["One"]})
    plain = stage(tmp_path, ROW)
    assert noted.dialogs[0].row_digest == plain.dialogs[0].row_digest
    assert dict(noted.dialogs[0].turns[1].labels) == {"entities": '["number"]'}
