"""Folders of files for other tools: each file lies where its name says, within the folder, and
replaces no other.
"""

from pathlib import Path

import pytest

from flows.cli.exports.exporting import write_files
from schemas.errors import UsageError


def test_files_lie_by_their_names(tmp_path: Path) -> None:
    assert write_files(tmp_path, iter([("summary.json", b"1"), ("a/b/3.json", b"2")])) == 2
    assert (tmp_path / "a" / "b" / "3.json").read_bytes() == b"2"


@pytest.mark.parametrize(
    "name",
    ["/generated/3.json", "../x.json", "a/../../x.json", "a/..", "", ".", "a\\..\\x", "a\0b"],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(UsageError, match="lies outside its folder"):
        write_files(folder, [(name, b"x")])
    assert list(tmp_path.rglob("*")) == [folder]


@pytest.mark.parametrize("again", ["a/3.json", "a//3.json", "./a/3.json"])
def test_a_name_that_comes_twice_is_refused(again: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two files named"):
        write_files(tmp_path, [("a/3.json", b"1"), (again, b"2")])
    assert (tmp_path / "a" / "3.json").read_bytes() == b"1"
