"""Dialogs of a dataset that a setting plays, and the facts about them that planning reads."""

# pyarrow.compute creates its functions at import, so type checkers do not know them.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.lake.rows import PackedRows, column_of
from schemas.problem import Problem
from tasks.benchmarks.contract import Benchmark

_FACTS = pa.schema(
    [
        ("row", pa.int32()),
        ("row_digest", pa.string()),
        ("digest", pa.string()),
        ("problem_id", pa.string()),
        ("dialog_id", pa.string()),
        ("n_turns", pa.int32()),
    ]
)
_AT_ONCE = 4096


class PlayedDialogs(Sequence[Dialog]):
    """Dialogs that a setting plays, in staged order.

    Attributes:
        facts: a row for each dialog: position among the staged dialogs, digests, names, number of
            turns.
        digest: digest of all dialogs' rows and program environments, independent of their order.
    """

    def __init__(self, benchmark: Benchmark, setting: str, staged: Sequence[Dialog]) -> None:
        self._staged = staged
        facts, digests = [_FACTS.empty_table()], list[str]()

        def played() -> Iterator[tuple[object, ...]]:
            for row, dialog in enumerate(staged):
                if benchmark.data.plays(setting, dialog):
                    digests.append(dialog.digest_with_packages)
                    names = (dialog.problem_id, dialog.dialog_id)
                    yield row, dialog.row_digest, dialog.digest, *names, len(dialog.turns)

        rows = played()
        while some := list(islice(rows, _AT_ONCE)):
            columns = zip(zip(*some, strict=True), _FACTS, strict=True)
            arrays = [column_of(column, field.type) for column, field in columns]
            facts.append(pa.Table.from_arrays(arrays, schema=_FACTS))
        self.facts: pa.Table = pa.concat_tables(facts).combine_chunks()
        self.digest = content_id(sorted(digests))

    def __len__(self) -> int:
        return self.facts.num_rows

    def __iter__(self) -> Iterator[Dialog]:
        wanted = iter(self.facts["row"].to_pylist())
        at = next(wanted, None)
        for row, dialog in enumerate(self._staged):
            if row == at:
                yield dialog
                at = next(wanted, None)

    @overload
    def __getitem__(self, at: int) -> Dialog: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Dialog, ...]: ...
    def __getitem__(self, at: int | slice) -> Dialog | tuple[Dialog, ...]:
        rows = self.facts["row"]
        if isinstance(at, slice):
            return tuple(self._staged[row] for row in rows[at].to_pylist())
        return self._staged[self.row(range(len(self))[at])]

    def row(self, at: int) -> int:
        """Convert a position among the played dialogs to the position among all staged dialogs."""
        return self.facts["row"][at].as_py()

    @property
    def digests(self) -> pa.Array:
        """Row digests of the played dialogs, in order."""
        return self.facts["row_digest"].combine_chunks()


def played_problems(
    problems: PackedRows[Problem], dialogs: PlayedDialogs
) -> tuple[pa.Array, pa.Array]:
    """Return the ids and positions of the staged problems that have one of these dialogs."""
    ids = problems.table(["problem_id"])["problem_id"].combine_chunks()
    places = pc.indices_nonzero(
        pc.is_in(ids, value_set=dialogs.facts["problem_id"].combine_chunks())
    )
    return ids.take(places), places
