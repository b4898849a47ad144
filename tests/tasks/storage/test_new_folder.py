"""Folders for others: a link stays, nothing foreign is lost, and no rubbish is left."""

from pathlib import Path

import pytest

from schemas.errors import UsageError
from tasks.storage.new_folder import marked_folder, new_folder


def write(out: Path, *names: str) -> None:
    with marked_folder(out, "mark.txt", "parley site") as folder:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name, encoding="utf-8")


def test_a_marked_folder_is_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "pages"
    write(out, "a.html", "sub/b.html")
    write(out, "sub/c.html")
    assert sorted(path.name for path in out.rglob("*")) == ["c.html", "mark.txt", "sub"]
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]


@pytest.mark.parametrize("foreign", ["thesis.txt", "sub/thesis.txt"])
def test_a_file_that_was_put_there_meanwhile_is_kept(tmp_path: Path, foreign: str) -> None:
    out = tmp_path / "pages"
    write(out, "sub/b.html")
    with pytest.raises(UsageError, match="thesis"):
        with marked_folder(out, "mark.txt", "parley site"):
            (out / foreign).write_text("mine", encoding="utf-8")
    assert (out / foreign).read_text(encoding="utf-8") == "mine"
    assert (out / "sub" / "b.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]


def test_a_link_stays_and_leads_to_the_new_folder(tmp_path: Path) -> None:
    link = tmp_path / "pages"
    link.symlink_to(tmp_path / "real")
    write(link, "a.html")
    write(link, "b.html")
    assert link.is_symlink()
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["b.html", "mark.txt"]
    with new_folder(tmp_path / "other", lambda path: True, replace=True) as folder:
        (folder / "x").write_text("1", encoding="utf-8")
    (tmp_path / "way").symlink_to(tmp_path / "other")
    with new_folder(tmp_path / "way", lambda path: True, replace=True) as folder:
        (folder / "y").write_text("2", encoding="utf-8")
    assert (tmp_path / "way").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "pages", "real", "way"]
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["y"]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "pages"
    write(out, "a.html")
    with pytest.raises(RuntimeError):
        with marked_folder(out, "mark.txt", "parley site"):
            raise RuntimeError
    assert sorted(path.name for path in out.iterdir()) == ["a.html", "mark.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]
