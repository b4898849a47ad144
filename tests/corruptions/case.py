"""A corruption: what is spoiled, when, and which check must catch it."""

from dataclasses import dataclass
from typing import Any, Literal

from tests.corruptions.spoiling import (
    Spoil,
)

When = Literal["staged", "converse", "execute", "score", "passed"]
"""`staged`: the dataset at rest, before a run is planned. `converse`, `execute`, `score`: after that stage, before what reads it.
`passed`: after all checks passed, before publication."""
OTHER = "f" * 32
DAMAGED = "SchemaMismatch"
CHANGED = "files_unchanged"


@dataclass(frozen=True)
class Case:
    """One corruption. `caught_by` is a rule of the table's suite, a rule of publication, or the class of an error."""

    name: str
    when: When
    table: str
    spoil: Spoil
    caught_by: str

    @property
    def seed(self) -> int:
        return sum(map(ord, self.name))


def is_scored(row: Any) -> bool:
    """Return whether a score has a value."""
    return row["value"] is not None
