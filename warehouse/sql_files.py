"""SQL statements of the package: one per file, its grain in line 1."""

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from schemas.errors import UnknownName

Folder = Literal["ddl", "staging", "soundness", "marts", "queries", "saved"]


@dataclass(frozen=True)
class SqlFile:
    """SQL statement with the name of its file."""

    name: str
    statement: str


def read_sql(source: Traversable) -> SqlFile:
    """Return a file's statement without its closing semicolon."""
    return SqlFile(
        source.name.removesuffix(".sql"),
        source.read_text(encoding="utf-8").strip().removesuffix(";"),
    )


def names(folder: Folder) -> tuple[str, ...]:
    """Return the names of a folder's statements, sorted."""
    files_of_folder = (item.name for item in (files("warehouse") / "sql" / folder).iterdir())
    return tuple(
        sorted(name.removesuffix(".sql") for name in files_of_folder if name.endswith(".sql"))
    )


def load(folder: Folder, name: str) -> SqlFile:
    """Return a statement of the package.

    Raises:
        UnknownName: there is no such statement. The message lists those of the folder.
    """
    available = names(folder)
    if name not in available:
        raise UnknownName("statement", name, available, of=f"warehouse/sql/{folder}")
    return read_sql(path(folder, name))


def path(folder: Folder, name: str) -> Traversable:
    """Return the file of a statement of the package."""
    return files("warehouse") / "sql" / folder / f"{name}.sql"
