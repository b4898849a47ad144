"""Folders of files for others: written aside, then put in place whole."""

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
    require_room(out, owns, replace=replace)
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.{token_hex(4)}")
    aside.mkdir()
    try:
        yield aside
        require_room(out, owns, replace=replace)
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
        raise UsageError(f"{out} holds {foreign[0]!r}, which this build did not make: not even --force removes it")


def _put_in_place(aside: Path, out: Path) -> None:
    """Rename an old folder away, then the new one into place. A kill in between leaves both beside `out`."""
    if not out.exists():
        os.rename(aside, out)
        return
    before = aside.with_name(f"{aside.name}.before")
    os.rename(out, before)
    os.rename(aside, out)
    shutil.rmtree(before)
