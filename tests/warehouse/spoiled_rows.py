"""Ways to spoil a table's rows in place, as a faulty stage would have written them."""

from typing import Any

from tests.warehouse.checked_tables import Rows


def put(column: str, value: Any, row: int = 0):
    def spoil(rows: Rows) -> None:
        rows[row][column] = value

    return spoil


def put_in(outer: str, place: int, column: str, value: Any, row: int = 0):
    def spoil(rows: Rows) -> None:
        rows[row][outer][place][column] = value

    return spoil


def answer_all(rows: Rows) -> None:
    for turn in rows[0]["turns"]:
        turn["content"] = turn["content"] or "As it stands."


def put_everywhere(**values: Any):
    def spoil(rows: Rows) -> None:
        for row in rows:
            row.update(values)

    return spoil


def repeat_first(rows: Rows) -> None:
    rows.append(dict(rows[0]))


def drop_first(rows: Rows) -> None:
    del rows[0]


def swap(outer: str, a: int, b: int):
    def spoil(rows: Rows) -> None:
        items = rows[0][outer]
        items[a], items[b] = items[b], items[a]

    return spoil
