"""Rows of raw files: what a fault ends, and what stays as it was."""

import csv
import json
from pathlib import Path

from tasks.benchmarks.raw_rows import Fault, Line, matching, read_csv, read_rows


def test_a_row_of_another_width_is_a_fault_of_its_own_and_one_of_the_file_ends_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'a,b\n1,2\n3\n4,5,6\n7,8\n"9,10\n')
    found = list(read_csv(path, ("a", "b")))
    assert [
        (one.number, one.reason if isinstance(one, Fault) else json.loads(one.content))
        for one in found
    ] == [
        (1, {"a": "1", "b": "2"}),
        (2, "broken_csv"),
        (3, "broken_csv"),
        (4, {"a": "7", "b": "8"}),
        (5, "unreadable_file"),
    ]


def test_long_cells_are_read_and_the_process_s_own_bound_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "x" * (before + 1) + "\ny\n", encoding="utf-8")
    rows = read_csv(path, ("a",))
    first = next(rows)
    assert isinstance(first, Line)
    assert csv.field_size_limit() == before
    assert [type(row) for row in rows] == [Line]
    assert csv.field_size_limit() == before < 1 << 20


def test_files_of_one_name_in_several_folders_are_all_found(tmp_path: Path) -> None:
    for name in ("a/rows.json", "a/rows.json.gz", "b/rows.json.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    files = matching(tmp_path, "a/rows.json", "b/rows.json")
    assert [str(path.relative_to(tmp_path)) for path in files] == ["a/rows.json", "b/rows.json.gz"]


def test_a_benchmark_without_tables_reads_lines_of_any_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('{"a": 1}\n', encoding="utf-8")
    assert list(read_rows(path, ())) == [Line(1, b'{"a": 1}')]
