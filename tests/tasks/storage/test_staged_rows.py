"""A worker reads staged rows by their places, also where the part was written anew in another
order.
"""

from pathlib import Path

import pytest

from schemas.dialog import Dialog, Role, Turn
from schemas.errors import CorruptRows
from schemas.lake.rows import to_arrow
from tasks.storage import parquet_store
from tasks.storage.parquet_store import Lake
from tasks.storage.staged_rows import staged_dialogs

KEYS = {"benchmark": "b", "dataset_version": "v"}
DIALOGS = [
    Dialog(
        **KEYS,
        dialog_id=f"d{n}",
        problem_id="p",
        turns=(Turn(turn=1, role=Role.USER, content=f"{n}"),),
        row_digest=f"r{n}",
    )
    for n in range(40)
]


def write(lake: Lake, dialogs: list[Dialog], name: str) -> None:
    lake.write_pieces(
        "dialogs",
        (to_arrow("dialogs", dialogs[at : at + 5]) for at in range(0, len(dialogs), 5)),
        name,
        **KEYS,
    )


def test_rows_are_read_by_place_and_moved_ones_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_store, "_GROUP_BYTES", 1)
    lake, wanted = Lake(tmp_path), [(31, "r31"), (2, "r2"), (2, "r2"), (30, "r30")]
    write(lake, DIALOGS, "one")
    part = staged_dialogs(lake.root, *KEYS.values(), "one")
    assert [dialog.row_digest for dialog in part.find(wanted)] == ["r31", "r2", "r2", "r30"]
    assert part.find([(7, "r7")]) == [DIALOGS[7]]
    write(lake, DIALOGS[::-1], "two")
    assert staged_dialogs(lake.root, *KEYS.values(), "two").find(wanted) == [
        DIALOGS[at] for at, _ in wanted
    ]


def test_a_row_or_part_that_is_gone_is_named(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    write(lake, DIALOGS[:3], "one")
    with pytest.raises(CorruptRows, match="no row with row_digest 'r9'"):
        staged_dialogs(lake.root, *KEYS.values(), "one").find([(9, "r9")])
    with pytest.raises(CorruptRows, match=r"part-two\.parquet is missing"):
        staged_dialogs(lake.root, *KEYS.values(), "two")
