"""Damage to lines of raw rows, and what holds of their staging whatever the damage was."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from schemas.errors import SourceUnreadable
from schemas.lake.rows import from_arrow, to_arrow
from tasks.benchmarks.contract import Staged


def corruptions(n_lines: int, dropped: Sequence[str]) -> st.SearchStrategy[list[Any]]:
    """A corruption for each line.

    Args:
        dropped: fields that one of them takes out of its row.
    """
    one = st.one_of(
        st.just("keep"),
        st.just("repeat"),
        st.just("blank"),
        st.tuples(st.just("cut"), st.floats(0, 1)),
        st.tuples(st.just("flip"), st.floats(0, 1), st.integers(1, 255)),
        st.tuples(
            st.just("insert"),
            st.floats(0, 1),
            st.binary(min_size=1, max_size=6).filter(lambda b: b"\n" not in b),
        ),
        st.tuples(st.just("drop"), st.sampled_from(dropped)),
    )
    return st.lists(one, min_size=n_lines, max_size=n_lines)


def corrupt(line: bytes, how: Any) -> list[bytes]:
    """The lines that one becomes."""
    match how:
        case "repeat":
            return [line, line]
        case "blank":
            return [b" \t", line]
        case ("cut", where):
            return [line[: int(where * len(line))]]
        case ("flip", where, by):
            at = int(where * (len(line) - 1))
            return [line[:at] + bytes([line[at] ^ by]) + line[at + 1 :]]
        case ("insert", where, what):
            at = int(where * len(line))
            return [line[:at] + what + line[at:]]
        case ("drop", name):
            return [json.dumps({k: v for k, v in json.loads(line).items() if k != name}).encode()]
        case _:
            return [line]


def check_staged_and_quarantined_rows_are_the_input_rows(
    stage: Callable[[Path, str], Staged], lines: Sequence[bytes], how: Sequence[Any], path: Path
) -> None:
    """Every row that is not blank is staged or quarantined, once, and can be stored.

    Args:
        how: a corruption for each of the lines.
        path: the file to stage; it is written here.
    """
    content = b"\n".join(
        made for line, one in zip(lines, how, strict=True) for made in corrupt(line, one)
    )
    path.write_bytes(content)
    rows = [line for line in content.split(b"\n") if line.strip(b" \t\r")]
    if not rows:
        with pytest.raises(SourceUnreadable):
            stage(path, "sample")
        return
    staged = stage(path, "sample")
    assert staged.n_input == len(rows) == len(staged.problems) + len(staged.quarantined)
    assert (
        len({p.problem_id for p in staged.problems}) == len(staged.problems) == len(staged.dialogs)
    )
    for table, models in (
        ("problems", staged.problems),
        ("dialogs", staged.dialogs),
        ("quarantine", staged.quarantined),
    ):
        assert (
            from_arrow(to_arrow(table, models), type(models[0])) == list(models) if models else True
        )
