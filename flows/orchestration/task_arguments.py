"""Arguments of Prefect tasks."""

from typing import TypeVar, cast

from prefect.utilities.annotations import quote

T = TypeVar("T")


def unlooked(rows: T) -> T:
    """Rows as a task's argument: Prefect would look into each for states of other tasks, which takes longer than the task."""
    return cast(T, quote(rows))
