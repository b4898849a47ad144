"""Output folders, written beside their final path and then renamed.

If the output is a link to a folder, the link stays and leads to the new folder.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from schemas.errors import UsageError


@contextmanager
def new_folder(
    out: Path, owns: Callable[[Path], bool] = lambda _: False, *, replace: bool = False
) -> Iterator[Path]:
    """Yield an empty folder that replaces `out` at the end of the block.

    After an error, `out` is unchanged.

    Args:
        out: output folder.
        owns: returns True if an earlier call wrote this file of `out`. Other files are never
            replaced.
        replace: True if files of an earlier call may be replaced.

    Raises:
        UsageError: `out` contains files that must not be replaced.
    """
    place = out.resolve()
    with _aside(place, lambda: require_room(place, owns, replace=replace)) as folder:
        yield folder


@contextmanager
def marked_folder(out: Path, marker: str, command: str) -> Iterator[Path]:
    """Yield an empty folder that replaces `out`, with all its subfolders, at the end of the block.

    Args:
        out: output folder.
        marker: name of the file that lists all files. Only listed files are ever replaced.
        command: command for messages and for the head of the marker.

    Raises:
        UsageError: `out` contains a file that its marker does not list, even if the file was
            created during the block.
    """
    place = out.resolve()
    with _aside(place, lambda: _require_marked(place, marker, command)) as folder:
        yield folder
        head = (
            f"Written by `{command}`, which replaces these files, and no folder with other files:"
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
    """Check that the files of `out` may be replaced. For arguments and errors see `new_folder`."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder. Use another --out")
    paths = sorted(out.iterdir())
    if paths and not replace:
        raise UsageError(
            f"{out} already contains {len(paths)} files ({paths[0].name}, …). Use another --out, "
            "or replace the files with --force"
        )
    foreign = [path.name for path in paths if not path.is_file() or not owns(path)]
    if foreign:
        raise UsageError(
            f"{out} contains {foreign[0]!r}, which this build did not create, so --force does not "
            "remove it. Use another --out, or move the file away"
        )


def _require_marked(out: Path, marker: str, command: str) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder. Use another --out")
    listed = (
        {marker, *(out / marker).read_text(encoding="utf-8").splitlines()[1:]}
        if (out / marker).is_file()
        else set[str]()
    )
    foreign = next((name for name in _files(out) if name not in listed), None)
    if foreign is not None:
        raise UsageError(
            f"{out} contains {foreign!r}, which `{command}` did not write. Use another --out, or "
            "move the file away"
        )


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files and links, relative to the folder."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _put_in_place(aside: Path, out: Path) -> None:
    """Rename the old folder away, then the new one into place.

    A kill between the two leaves both folders beside `out`.
    """
    if not out.exists():
        os.rename(aside, out)
        return
    before = aside.with_name(f"{aside.name}.before")
    os.rename(out, before)
    os.rename(aside, out)
    shutil.rmtree(before)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, and create its folders. An existing file is replaced completely or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UsageError(f"{path}: cannot be written ({type(error).__name__}: {error})") from None
