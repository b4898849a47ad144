"""The store of folders by content: what it keeps, what it refuses, and what a kill leaves."""

import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from sandbox.workspace.interface import Stamp, StoredFolder, TreeBounds, TreeOverrun
from schemas.errors import CorruptRows
from tasks.storage.files.keeping import RecentContents
from tasks.storage.files.trees import TreeStore


@pytest.fixture
def store(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "src" / "empty").mkdir(parents=True)
    (made / "src" / "code.py").write_text("print(1)\n")
    (made / "run").write_text("#!/bin/sh\n")
    (made / "run").chmod(0o755)
    os.symlink("/etc/passwd", made / "out")
    os.symlink("src/code.py", made / "in")
    with open(os.path.join(os.fsencode(made), b"caf\xe9"), "wb") as file:
        file.write(bytes(range(256)))
    return made


def restored(store: TreeStore, digest: str, place: Path) -> Path:
    place.mkdir()
    store.restore(digest, place)
    return place


def objects(store: TreeStore) -> set[Path]:
    return {path for path in store._path.rglob("*") if path.is_file()}


def keep_settled(store: TreeStore, folder: Path, known: dict[Stamp, str]) -> StoredFolder:
    """Keep a folder until all of its files bear stamps that later changes cannot."""
    store.keep(folder, known_digests=known)
    time.sleep(0.06)
    return store.keep(folder, known_digests=known)


def test_a_restored_folder_is_as_it_was(store: TreeStore, folder: Path, tmp_path: Path):
    digest = store.keep(folder).digest
    again = restored(store, digest, tmp_path / "again")
    assert sorted(os.walk(os.fsencode(again)))[0][2] == sorted(os.walk(os.fsencode(folder)))[0][2]
    assert (again / "src" / "empty").is_dir()
    assert (again / "run").stat().st_mode & 0o777 == 0o755
    assert (again / "src" / "code.py").stat().st_mode & 0o777 == (
        folder / "src" / "code.py"
    ).stat().st_mode & 0o777
    assert (os.readlink(again / "out"), os.readlink(again / "in")) == ("/etc/passwd", "src/code.py")
    with open(os.path.join(os.fsencode(again), b"caf\xe9"), "rb") as file:
        assert file.read() == bytes(range(256))
    assert store.keep(again).digest == digest


def test_equal_content_is_stored_once_and_a_change_stores_what_lies_above_it(
    store: TreeStore, folder: Path
):
    (folder / "src" / "copy.py").write_text("print(1)\n")
    first = store.keep(folder)
    before = objects(store)
    assert store.keep(folder) == first
    (folder / "src" / "code.py").write_text("print(2)\n")
    changed = store.keep(folder)
    assert changed.digest != first.digest
    assert len(objects(store) - before) == 3  # the file, the list of `src`, the list above


@pytest.mark.parametrize("hides", [False, True])
def test_a_change_of_equal_length_is_seen_though_the_program_sets_the_time_back(
    store: TreeStore, folder: Path, hides: bool
):
    known: dict[Stamp, str] = {}
    first = keep_settled(store, folder, known)
    assert len(known) == 3
    code = folder / "src" / "code.py"
    at = code.stat()
    with code.open("r+") as file:
        file.write("print(7)\n")
    if hides:
        os.utime(code, ns=(at.st_atime_ns, at.st_mtime_ns))
        assert code.stat().st_mtime_ns == at.st_mtime_ns
    assert (
        store.keep(folder, known_digests=known).digest == store.keep(folder).digest != first.digest
    )


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_a_change_through_a_mapping_is_seen(store: TreeStore, tmp_path: Path, place: str):
    """In memory (tmpfs) such a change leaves no trace in a file's times, so that its files are
    always read.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm" if place == "memory" else tmp_path) as folder:
        (Path(folder) / "f").write_bytes(b"1" * 4096)
        known: dict[Stamp, str] = {}
        first = keep_settled(store, Path(folder), known)
        with (Path(folder) / "f").open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapping:
            assert mapping[0] == ord("1")  # mapped by a read first
            mapping[1:2] = b"2"
        time.sleep(0.06)
        assert (
            store.keep(Path(folder), known_digests=known).digest
            == store.keep(Path(folder)).digest
            != first.digest
        )


def test_a_file_with_a_known_stamp_is_not_read(
    store: TreeStore, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tasks.storage.files.keeping.tells_changes", lambda _: True)
    known: dict[Stamp, str] = {}
    first = keep_settled(store, folder, known)
    monkeypatch.setattr(
        "tasks.storage.files.keeping._read_all",
        lambda *_: pytest.fail("read a file that has not changed"),
    )
    assert store.keep(folder, known_digests=known) == first


def test_a_file_changed_a_moment_ago_is_read_again(store: TreeStore, folder: Path):
    """Two changes within one tick of the file system's clock leave the same stamp."""
    known: dict[Stamp, str] = {}
    (folder / "run").write_text("now\n")
    store.keep(folder, known_digests=known)
    assert (folder / "run").stat().st_ctime_ns not in {stamp.ctime_ns for stamp in known}


def test_what_was_restored_long_enough_ago_is_known(store: TreeStore, folder: Path, tmp_path: Path):
    for number in range(3):
        (folder / f"{number}").write_text(f"{number}")
    digest = store.keep(folder).digest
    place = tmp_path / "again"
    place.mkdir()
    known = store.restore(digest, place)
    assert store.keep(place, known_digests=known).digest == digest


def test_pipes_and_sockets_are_dropped_and_said(store: TreeStore, folder: Path):
    before = store.keep(folder)
    os.mkfifo(folder / "src" / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "socket"))
        kept = store.keep(folder)
    assert set(kept.dropped) == {"src/pipe", "socket"}
    assert kept.digest == before.digest
    assert not (folder / "src" / "pipe").exists()


def test_hard_links_become_files_of_their_own_and_rights_beyond_rwx_go(
    store: TreeStore, folder: Path, tmp_path: Path
):
    os.link(folder / "run", folder / "also")
    (folder / "run").chmod(0o6755)
    (folder / "src").chmod(0)
    again = restored(store, store.keep(folder).digest, tmp_path / "again")
    assert (again / "also").read_text() == (again / "run").read_text()
    assert (again / "also").stat().st_nlink == 1
    assert (
        (again / "run").stat().st_mode & 0o7777 == (folder / "run").stat().st_mode & 0o7777 == 0o755
    )
    assert (folder / "src").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (TreeBounds(file_mb=1), "'src/big' has 2097152 bytes"),
        (TreeBounds(total_mb=1), "more than 1 MiB"),
        (TreeBounds(files=3), "more than 3 files"),
        (TreeBounds(depth=2), "deeper than 2 levels"),
    ],
)
def test_too_much_is_refused_unread(store: TreeStore, folder: Path, bounds: TreeBounds, said: str):
    with (folder / "src" / "big").open("wb") as file:
        file.truncate(2 << 20)
    (folder / "src" / "empty" / "deeper").mkdir()
    with pytest.raises(TreeOverrun, match=said):
        store.keep(folder, bounds=bounds)


def test_state_beside_the_tree_is_part_of_the_digest_only_where_there_is_some(
    store: TreeStore, folder: Path, tmp_path: Path
):
    beside = {"shell": tmp_path / "shell", "tmp": tmp_path / "tmp"}
    for made in beside.values():
        made.mkdir()
    bare = store.keep(folder).digest
    assert store.keep(folder, beside).digest == bare
    (tmp_path / "shell" / "state").write_text("cd /testbed/src")
    whole = store.keep(folder, beside).digest
    assert whole != bare
    assert store.with_files(whole, {}) == store.with_files(bare, {}) == bare
    again = {"shell": tmp_path / "other"}
    (tmp_path / "other").mkdir()
    (tmp_path / "again").mkdir()
    store.restore(whole, tmp_path / "again", again)
    assert (tmp_path / "other" / "state").read_text() == "cd /testbed/src"


def test_a_second_folder_is_filled_without_reading_the_store_again(
    store: TreeStore, folder: Path, tmp_path: Path
):
    digest = store.keep(folder).digest
    first = restored(store, digest, tmp_path / "first")
    for path in objects(store):
        path.unlink()
    second = restored(store, digest, tmp_path / "second")
    assert (
        TreeStore(tmp_path / "other").keep(second).digest
        == TreeStore(tmp_path / "other").keep(first).digest
        == digest
    )


def test_contents_used_longest_ago_go_first():
    read: list[str] = []
    recent = RecentContents(lambda digest: read.append(digest) or bytes(4), most_bytes=8)
    for digest in ("a", "b", "a", "c", "a", "b"):
        assert recent.get(digest) == bytes(4)
    assert read == ["a", "b", "c", "b"]


def test_spoiled_and_missing_objects_are_named(store: TreeStore, folder: Path, tmp_path: Path):
    digest = store.keep(folder).digest
    with pytest.raises(CorruptRows, match="no object"):
        store.restore("0" * 64, tmp_path)
    other = store.add(b"other")
    os.replace(store._place(other), store._place(digest))
    with pytest.raises(CorruptRows, match="does not have the digest in its name"):
        store.restore(digest, tmp_path)


_ENDLESS = """
import sys
from pathlib import Path
from tasks.storage.files.trees import TreeStore
store, folder, number = TreeStore(Path(sys.argv[1])), Path(sys.argv[2]), 0
while True:
    for name in range(20):
        (folder / "src" / f"{name}").write_text(f"{number} {name}" * 1000)
    print(store.keep(folder).digest, flush=True)
    number += 1
"""


def test_a_kill_in_the_middle_leaves_no_torn_tree(store: TreeStore, folder: Path, tmp_path: Path):
    """Whatever has an object's name is whole, and a digest that was said can be restored."""
    command = (sys.executable, "-c", _ENDLESS, str(store._path), str(folder))
    for round_ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            said = process.stdout.readline().decode().strip()
            time.sleep(0.005 * round_)
            process.send_signal(signal.SIGKILL)
            said = (process.stdout.read().decode().splitlines() or [said])[-1]
        restored(store, said, tmp_path / f"again-{round_}")
    for path in objects(store) - set(store._partial.iterdir()):
        store.get(path.parent.name + path.name)


def test_what_a_killed_writer_left_goes_after_a_day(store: TreeStore, folder: Path):
    store.keep(folder)
    left, fresh = store._partial / "1-left", store._partial / "2-fresh"
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    long_ago = time.time() - 100_000
    os.utime(left, (long_ago, long_ago))
    store.remove_abandoned()
    assert (left.exists(), fresh.exists()) == (False, True)


def test_what_an_earlier_release_stored_is_read(tmp_path: Path):
    """It packed by zlib."""
    store = TreeStore(tmp_path)
    digest = store.add(b"a file")
    place = tmp_path / digest[:2] / digest[2:]
    place.write_bytes(zlib.compress(b"a file"))
    assert store.get(digest) == b"a file"


@pytest.mark.parametrize("at", [0, 6, 9, 20, -1])
def test_a_spoiled_object_is_named(tmp_path: Path, at: int):
    """Whichever byte it is: of the mark, of the size, of the content."""
    store = TreeStore(tmp_path)
    digest = store.add(bytes(range(256)) * 20)
    place = tmp_path / digest[:2] / digest[2:]
    spoiled = bytearray(place.read_bytes())
    spoiled[at] ^= 0xFF
    place.write_bytes(spoiled)
    with pytest.raises(CorruptRows, match=digest[2:]):
        store.get(digest)
