"""Files in memory are read again only where they may have changed, and then always."""

import mmap
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from sandbox.workspace.interface import Stamp, TreeBounds, TreeOverrun
from sandbox.workspace.watching import FolderWatch
from tasks.storage.files import keeping
from tasks.storage.files.trees import TreeStore

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        for name in ("a", "b"):
            (Path(made) / name).mkdir()
            (Path(made) / name / "f").write_bytes(name.encode() * 4096)
        yield Path(made)


class Kept:
    """A folder that is kept again and again under one watch."""

    def __init__(self, folder: Path, store: TreeStore, watch: FolderWatch) -> None:
        self._folder, self._store, self._watch = folder, store, watch
        self._known: dict[Stamp, str] = {}
        for _ in range(2):
            self.digest = self.again()

    def again(self, bounds: TreeBounds | None = None) -> str:
        time.sleep(0.06)
        return self._store.keep(self._folder, {}, self._known, bounds, self._watch).digest


@pytest.fixture
def kept(folder: Path, tmp_path: Path) -> Iterator[Kept]:
    with closing(FolderWatch()) as watch:
        yield Kept(folder, TreeStore(tmp_path / "store"), watch)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the files that were read."""
    sizes: list[int] = []
    really = keeping._read_all
    monkeypatch.setattr(
        keeping,
        "_read_all",
        lambda descriptor, size: sizes.append(size) or really(descriptor, size),
    )
    return sizes


def map_into(path: Path) -> None:
    """Write through a mapping that was read first, and whose file is closed already: no time of the
    file tells it.
    """
    before = path.stat()
    with path.open("r+b") as file:
        mapping = mmap.mmap(file.fileno(), 4096)
    mapping[7:8] = b"?" if mapping[7] == ord("!") else b"!"
    mapping.close()
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def link_write_and_unlink(folder: Path) -> None:
    os.link(folder / "a" / "f", folder / "b" / "other")
    map_into(folder / "b" / "other")
    (folder / "b" / "other").unlink()


def move_folder_and_map(folder: Path) -> None:
    (folder / "a").rename(folder / "b" / "below")
    map_into(folder / "b" / "below" / "f")


def replace_folder(folder: Path) -> None:
    shutil.rmtree(folder / "a")
    (folder / "a").mkdir()
    (folder / "a" / "f").write_bytes(b"c" * 4096)


def overflow_and_map(folder: Path) -> None:
    """More happens than the kernel's queue holds, and what matters comes last."""
    for _ in range(int(QUEUE.read_text()) // 2 + 10):
        for name in ("x", "y"):
            (folder / "b" / name).write_bytes(b"")
    map_into(folder / "a" / "f")


def link_into_a_new_folder_and_write(folder: Path) -> None:
    (folder / "b" / "new").mkdir()
    os.link(folder / "a" / "f", folder / "b" / "new" / "other")
    map_into(folder / "b" / "new" / "other")
    (folder / "b" / "new" / "other").unlink()


def link_write_and_replace(folder: Path) -> None:
    os.link(folder / "a" / "f", folder / "b" / "other")
    map_into(folder / "b" / "other")
    (folder / "b" / "f").replace(folder / "b" / "other")
    (folder / "b" / "other").rename(folder / "b" / "f")


def link_write_rename_and_unlink(folder: Path) -> None:
    os.link(folder / "a" / "f", folder / "b" / "other")
    map_into(folder / "b" / "other")
    (folder / "b" / "other").rename(folder / "b" / "third")
    (folder / "b" / "third").unlink()


def link_and_write(folder: Path) -> None:
    os.link(folder / "a" / "f", folder / "b" / "other")
    map_into(folder / "b" / "other")


CHANGES = (
    lambda folder: map_into(folder / "a" / "f"),
    link_write_and_unlink,
    link_into_a_new_folder_and_write,
    link_write_and_replace,
    link_write_rename_and_unlink,
    link_and_write,
    move_folder_and_map,
    replace_folder,
    overflow_and_map,
    lambda folder: os.truncate(folder / "a" / "f", 1),
)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that were walked."""
    folders: list[Path] = []
    really = keeping.Keeping._walk
    monkeypatch.setattr(
        keeping.Keeping,
        "_walk",
        lambda walk, folder: folders.append(folder) or really(walk, folder),
    )
    return folders


def test_what_has_not_changed_is_not_looked_at(kept: Kept, looked: list[Path]):
    assert kept.again() == kept.digest
    assert looked == []


def test_files_that_did_not_change_are_not_read(kept: Kept, folder: Path, read: list[int]):
    (folder / "a").chmod(0o700)
    assert kept.again() != kept.digest
    assert read == []


def test_only_the_folder_that_changed_and_those_above_it_are_looked_at(
    kept: Kept, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    listed: list[str] = []
    really = keeping.Keeping._folder

    def noted(
        walk: keeping.Keeping, place: int, path: str, depth: int, parent: int
    ) -> keeping.WalkedFolder:
        before = walk._files
        found = really(walk, place, path, depth, parent)
        listed.append(f"{path or '.'} {walk._files - before}")
        return found

    monkeypatch.setattr(keeping.Keeping, "_folder", noted)
    entered: list[int] = []
    scandir = os.scandir
    monkeypatch.setattr(
        keeping.os, "scandir", lambda place: entered.append(place) or scandir(place)
    )
    (folder / "b" / "g").write_bytes(b"new")
    found = kept.again()
    assert listed == ["a/ 1", "b/ 2", ". 5"]
    assert len(entered) == 2
    monkeypatch.undo()
    assert found == TreeStore(tmp_path / "other").keep(folder).digest != kept.digest


def test_bounds_hold_for_folders_that_are_not_looked_at(kept: Kept, folder: Path):
    (folder / "b" / "g").write_bytes(b"new")
    with pytest.raises(TreeOverrun):
        kept.again(TreeBounds(files=4))
    (folder / "b" / "g").write_bytes(b"newer")
    with pytest.raises(TreeOverrun):
        kept.again(TreeBounds(depth=1))


def test_a_folder_that_moved_is_seen_where_it_is(kept: Kept, folder: Path, tmp_path: Path):
    """A change below it comes one look after the move."""
    (folder / "a" / "below").mkdir()
    (folder / "a" / "below" / "deep").write_bytes(b"d" * 4096)
    kept.again()
    (folder / "a" / "below").rename(folder / "b" / "below")
    moved = kept.again()
    assert moved == TreeStore(tmp_path / "moved").keep(folder).digest
    map_into(folder / "b" / "below" / "deep")
    assert kept.again() == TreeStore(tmp_path / "other").keep(folder).digest != moved


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_mix_of_changes_is_seen(folder: Path, tmp_path: Path, seed: int):
    """Files, links, second names, folders and mappings change by chance; a store that knows nothing
    has the truth.
    """
    draw, store, known = random.Random(seed), TreeStore(tmp_path / "store"), dict[Stamp, str]()
    truth = TreeStore(tmp_path / "truth")
    with closing(FolderWatch()) as watch:
        for _ in range(25):
            for _ in range(draw.randint(1, 5)):
                change_by_chance(folder, draw)
            time.sleep(0.06)
            assert store.keep(folder, {}, known, watch=watch).digest == truth.keep(folder).digest


def change_by_chance(folder: Path, draw: random.Random) -> None:
    folders = [
        folder,
        *(path for path in sorted(folder.rglob("*")) if path.is_dir() and not path.is_symlink()),
    ]
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    place = draw.choice(folders) / f"n{draw.randint(0, 5)}"
    file = draw.choice(files) if files else folder / "first"
    with suppress(OSError):  # the place is taken by something that cannot be replaced so
        match draw.randint(0, 7):
            case 0:
                place.write_bytes(draw.randbytes(4096))
            case 1:
                place.mkdir()
            case 2:
                os.link(file, place)
            case 3:
                file.rename(place)
            case 4:
                file.unlink()
            case 5:
                draw.choice(folders[1:] or folders).rename(place)
            case 6:
                os.link(file, place)
                map_into(place)
                place.unlink()
            case _:
                map_into(file)


def test_bounds_hold_for_what_is_not_looked_at(kept: Kept):
    with pytest.raises(TreeOverrun):
        kept.again(TreeBounds(files=3))


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(
    kept: Kept, folder: Path, tmp_path: Path, change: Callable[[Path], None]
):
    change(folder)
    assert kept.again() == TreeStore(tmp_path / "other").keep(folder).digest != kept.digest


def other_names(folder: Path) -> None:
    (folder / "a" / "f").rename(folder / "a" / "g")


def other_mode(folder: Path) -> None:
    (folder / "b" / "f").chmod(0o755)


def other_link(folder: Path) -> None:
    (folder / "b" / "link").symlink_to("f")


@pytest.mark.parametrize("change", [*CHANGES, other_names, other_mode, other_link])
def test_every_change_after_the_folder_was_filled_is_seen(
    folder: Path, tmp_path: Path, change: Callable[[Path], None]
):
    store = TreeStore(tmp_path / "store")
    digest = store.keep(folder).digest
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made, closing(FolderWatch()) as watch:
        filled = Path(made)
        known = store.restore(digest, filled, watch=watch)
        assert store.keep(filled, {}, known, watch=watch).digest == digest
        change(filled)
        assert (
            store.keep(filled, {}, known, watch=watch).digest
            == TreeStore(tmp_path / "other").keep(filled).digest
            != digest
        )


def test_a_filled_folder_is_not_looked_at(folder: Path, tmp_path: Path, looked: list[Path]):
    store = TreeStore(tmp_path / "store")
    digest = store.keep(folder).digest
    looked.clear()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made, closing(FolderWatch()) as watch:
        known = store.restore(digest, Path(made), watch=watch)
        assert store.keep(Path(made), {}, known, watch=watch).digest == digest
    assert looked == []


def test_only_the_file_that_was_mapped_is_read(kept: Kept, folder: Path, read: list[int]):
    (folder / "b" / "f").write_bytes(b"b" * 100)
    kept.again()
    kept.again()
    read.clear()
    map_into(folder / "a" / "f")
    kept.again()
    assert read == [4096]


def test_a_file_with_two_names_is_read_each_time(kept: Kept, folder: Path, tmp_path: Path):
    """Written under a name that is elsewhere, it tells nothing in its folder."""
    os.link(folder / "a" / "f", folder / "b" / "other")
    kept.again()
    kept.again()
    map_into(folder / "b" / "other")
    assert kept.again() == TreeStore(tmp_path / "other").keep(folder).digest


def test_after_a_refusal_all_is_read(kept: Kept, folder: Path, tmp_path: Path):
    map_into(folder / "a" / "f")
    with pytest.raises(TreeOverrun):
        kept.again(TreeBounds(files=3))
    assert kept.again() == TreeStore(tmp_path / "other").keep(folder).digest != kept.digest


def test_without_watches_all_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    watch = FolderWatch()
    watch.close()  # what is asked of it fails from now on, as where the machine has no watch left
    kept = Kept(folder, TreeStore(tmp_path / "store"), watch)
    map_into(folder / "a" / "f")
    assert kept.again() == TreeStore(tmp_path / "other").keep(folder).digest != kept.digest
