"""Folders of files for others: written aside, then put in place whole. A link to a folder stays, and leads to the new one."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from schemas.errors import UsageError


@contextmanager
def new_folder(out: Path, owns: Callable[[Path], bool], *, replace: bool) -> Iterator[Path]:
    """An empty folder beside `out` that takes its place at the block's end; an error leaves `out` as it was.

    Args:
        owns: whether a file there is an earlier edition's. No other is ever replaced.

    Raises:
        UsageError: `out` holds files, and they may not be replaced.
    """
    place = out.resolve()
    with _aside(place, lambda: require_room(place, owns, replace=replace)) as folder:
        yield folder


@contextmanager
def marked_folder(out: Path, marker: str, command: str) -> Iterator[Path]:
    """As `new_folder`, for a tree of folders: the file `marker` in it lists all files, and only these are ever replaced.

    Raises:
        UsageError: `out` holds a file that its marker does not list, also one that was put there meanwhile.
    """
    place = out.resolve()
    with _aside(place, lambda: _require_marked(place, marker, command)) as folder:
        yield folder
        head = (
            f"Written by `{command}`, which replaces these files, and no folder that holds others:"
        )
        (folder / marker).write_text(
            "\n".join([head, *sorted(_files(folder)), ""]), encoding="utf-8"
        )


@contextmanager
def _aside(out: Path, require: Callable[[], None]) -> Iterator[Path]:
    require()
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.{token_hex(4)}")
    aside.mkdir()
    try:
        yield aside
        require()
        _put_in_place(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def require_room(out: Path, owns: Callable[[Path], bool], *, replace: bool) -> None:
    """See `new_folder`."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder. Give another --out")
    paths = sorted(out.iterdir())
    if paths and not replace:
        raise UsageError(
            f"{out} holds {len(paths)} files already ({paths[0].name}, …). Give another --out, or replace them by --force"
        )
    foreign = [path.name for path in paths if not path.is_file() or not owns(path)]
    if foreign:
        raise UsageError(
            f"{out} holds {foreign[0]!r}, which this build did not make: not even --force removes it"
        )


def _require_marked(out: Path, marker: str, command: str) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder. Give another --out")
    listed = (
        {marker, *(out / marker).read_text(encoding="utf-8").splitlines()[1:]}
        if (out / marker).is_file()
        else set[str]()
    )
    foreign = next((name for name in _files(out) if name not in listed), None)
    if foreign is not None:
        raise UsageError(
            f"{out} holds {foreign!r}, which `{command}` did not write. Give another --out, or move it away"
        )


def _files(folder: Path) -> Iterator[str]:
    """Paths of what is no folder, from the folder on."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _put_in_place(aside: Path, out: Path) -> None:
    """Rename an old folder away, then the new one into place. A kill in between leaves both beside `out`."""
    if not out.exists():
        os.rename(aside, out)
        return
    before = aside.with_name(f"{aside.name}.before")
    os.rename(out, before)
    os.rename(aside, out)
    shutil.rmtree(before)
