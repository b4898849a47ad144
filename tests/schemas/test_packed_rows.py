"""Packed rows read as the rows that were packed, whole, one by one and by key."""

import pickle

import pyarrow as pa
import pytest

from schemas.lake.rows import BATCH_ROWS, KeyedRows, PackedRows
from schemas.problem import QuarantinedRow

N_ROWS = 2 * BATCH_ROWS + 7
ROWS = [
    QuarantinedRow(
        benchmark="b",
        dataset_version="v",
        source_file="f",
        source_line=n,
        reason="broken_json",
        detail=f"row {n}",
    )
    for n in range(N_ROWS)
]


@pytest.fixture
def packed() -> PackedRows[QuarantinedRow]:
    return PackedRows("quarantine", ROWS)


def test_packed_rows_are_the_rows(packed: PackedRows[QuarantinedRow]) -> None:
    assert (len(packed), list(packed), packed) == (N_ROWS, ROWS, ROWS)
    places = (0, BATCH_ROWS - 1, BATCH_ROWS, 2 * BATCH_ROWS, -1, -N_ROWS)
    assert [packed[at] for at in places] == [ROWS[at] for at in places]
    assert packed.take([300, 3, 300, N_ROWS - 1]) == [ROWS[300], ROWS[3], ROWS[300], ROWS[-1]]
    assert packed[250:260] == tuple(ROWS[250:260])
    assert packed[::-100] == tuple(ROWS[::-100])
    assert packed != ROWS[1:]
    with pytest.raises(IndexError):
        packed[N_ROWS]


def test_tables_of_any_size_are_packed(packed: PackedRows[QuarantinedRow]) -> None:
    table = packed.table()
    for size in (1, 100, BATCH_ROWS, N_ROWS):
        pieces = (table.slice(start, size) for start in range(0, N_ROWS, size))
        assert PackedRows.of_tables("quarantine", pieces) == ROWS
    assert packed.table(["source_line"])["source_line"].to_pylist() == list(range(N_ROWS))
    assert pickle.loads(pickle.dumps(packed)) == ROWS


def test_a_row_is_found_by_its_key(packed: PackedRows[QuarantinedRow]) -> None:
    chosen = range(1, N_ROWS, 2)
    rows = KeyedRows(packed, pa.array([ROWS[at].detail for at in chosen]), pa.array(chosen))
    assert rows["row 301"] == ROWS[301]
    assert "row 300" not in rows
    assert list(rows.values()) == ROWS[1::2]
