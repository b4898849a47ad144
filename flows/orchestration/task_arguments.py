"""Arguments of Prefect tasks that Prefect does not inspect."""

from typing import TypeVar, cast

from prefect.utilities.annotations import quote

T = TypeVar("T")


def unlooked(rows: T) -> T:
    """Return rows as a task argument that Prefect does not inspect.

    Otherwise Prefect searches every row for states of other tasks, which takes longer than the
    task.
    """
    return cast(T, quote(rows))
