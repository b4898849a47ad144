"""The package's SQL: one statement a file, its grain in line 1."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from schemas.errors import UnknownName

Folder = Literal["ddl", "staging", "soundness", "marts", "queries", "saved"]


@dataclass(frozen=True)
class SqlFile:
    """A statement by its file's name."""

    name: str
    statement: str


def read_sql(source: Traversable) -> SqlFile:
    """A statement without its closing semicolon."""
    return SqlFile(
        source.name.removesuffix(".sql"),
        source.read_text(encoding="utf-8").strip().removesuffix(";"),
    )


def names(folder: Folder) -> tuple[str, ...]:
    """Names of a folder's statements, sorted."""
    found = (item.name for item in (files("warehouse") / "sql" / folder).iterdir())
    return tuple(sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql")))


def load(folder: Folder, name: str) -> SqlFile:
    """One of the package's statements.

    Raises:
        UnknownName: lists the folder's statements.
    """
    known = names(folder)
    if name not in known:
        raise UnknownName("statement", name, known, of=f"warehouse/sql/{folder}")
    return read_sql(path(folder, name))


def path(folder: Folder, name: str) -> Traversable:
    """Return the file of one of the package's statements."""
    return files("warehouse") / "sql" / folder / f"{name}.sql"


def load_all(folder: Folder, wanted: Iterable[str]) -> tuple[SqlFile, ...]:
    """Several statements of a folder, in the given order."""
    return tuple(load(folder, name) for name in wanted)
