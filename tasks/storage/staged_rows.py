"""Staged dialogs and problems: those that a setting plays, and access to a row by its position.

The driver has the rows in memory. Workers read row groups of the lake's parts.

The lake stores each context in a part of its own that is named by its content. So a process reads
only the contexts that it needs, and each of them once.
"""

# pyarrow.compute creates its functions at import, so type checkers do not know them.
# pyright: reportAttributeAccessIssue=false

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar, overload

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from schemas.content_id import content_id
from schemas.dialog import Context, Dialog, Turn
from schemas.errors import CorruptRows
from schemas.grouping import grouped
from schemas.lake.rows import PackedRows, column_of, from_arrow
from schemas.problem import Problem
from tasks.storage.parquet_store import Lake

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
_FACTS_AT_ONCE = 4096


class PlayedDialogs(Sequence[Dialog]):
    """Dialogs that a setting plays, in staged order.

    Args:
        staged: all staged dialogs.
        is_played: returns True for a dialog of the setting.

    Attributes:
        facts: a row for each dialog: position among the staged dialogs, digests, names, number of
            turns.
        digest: digest of all dialogs' rows and program environments, independent of their order.
    """

    def __init__(self, staged: Sequence[Dialog], is_played: Callable[[Dialog], bool]) -> None:
        self._staged = staged
        facts, digests = [_FACTS.empty_table()], list[str]()

        def played() -> Iterator[tuple[object, ...]]:
            for row, dialog in enumerate(staged):
                if is_played(dialog):
                    digests.append(dialog.digest_with_packages)
                    names = (dialog.problem_id, dialog.dialog_id)
                    yield row, dialog.row_digest, dialog.digest, *names, len(dialog.turns)

        rows = played()
        while some := list(islice(rows, _FACTS_AT_ONCE)):
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


M = TypeVar("M", bound=BaseModel)
_PARTS_OPEN = 8
_CACHED_BYTES = 8 * 2**20
"""Size of the row groups of one part that stay in memory after reading. At least one stays."""


class StagedPart(Generic[M]):
    """Part of a staged table. Several threads may use it.

    Args:
        lake: lake that contains the part.
        table: table of the part.
        model: model of the rows.
        key: column that identifies a row. A part that was rewritten may have another order of rows.
        part: file of the part.
    """

    def __init__(self, lake: Lake, table: str, model: type[M], key: str, part: Path) -> None:
        self._model, self._key, self._part, self._lock = model, key, part, Lock()
        try:
            self._file = lake.open_part(table, part)
        except FileNotFoundError:
            raise CorruptRows(
                f"{part} is missing, and dialogues in progress need its rows. Type the same "
                "command again to recreate it"
            ) from None
        metadata = self._file.metadata
        self._starts = list(
            accumulate(
                (metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)), initial=0
            )
        )
        self._cached: OrderedDict[int, pa.Table] = OrderedDict()

    def find(self, rows: Sequence[tuple[int, str]]) -> list[M]:
        """Return rows by (position, key), in order.

        Raises:
            CorruptRows: the part has no row with one of the keys.
        """
        with self._lock:
            models = self._read({place for place, _ in rows})
            if any(
                place not in models or getattr(models[place], self._key) != key
                for place, key in rows
            ):
                rows = self._by_key([key for _, key in rows])
                models = self._read({place for place, _ in rows})
        return [models[place] for place, _ in rows]

    def _by_key(self, keys: Sequence[str]) -> list[tuple[int, str]]:
        """Return the current positions of keys, in a part whose rows have changed order."""
        places = {
            key: place
            for place, key in enumerate(self._file.read([self._key])[self._key].to_pylist())
        }
        missing = [key for key in keys if key not in places]
        if missing:
            raise CorruptRows(
                f"{self._part} has no row with {self._key} {missing[0]!r}. Stage its data again: "
                "parley stage"
            )
        return [(places[key], key) for key in keys]

    def _read(self, places: Iterable[int]) -> dict[int, M]:
        of_group = grouped(
            (bisect_right(self._starts, place) - 1, place)
            for place in sorted(places)
            if place < self._starts[-1]
        )
        models: dict[int, M] = {}
        for number, inside in of_group.items():
            rows = self._group(number).take(
                pa.array([place - self._starts[number] for place in inside], pa.int64())
            )
            models |= zip(inside, from_arrow(rows, self._model), strict=True)
        return models

    def _group(self, number: int) -> pa.Table:
        if number not in self._cached:
            self._cached[number] = self._file.read_row_group(number)
            while (
                len(self._cached) > 1
                and sum(rows.nbytes for rows in self._cached.values()) > _CACHED_BYTES
            ):
                self._cached.popitem(last=False)
        self._cached.move_to_end(number)
        return self._cached[number]


@lru_cache(_PARTS_OPEN)
def staged_dialogs(
    root: Path, benchmark: str, dataset_version: str, name: str
) -> StagedPart[Dialog]:
    """Return the part of staged dialogs with this name. A process opens each part once."""
    lake = Lake(root)
    folder = lake.folder("dialogs", benchmark=benchmark, dataset_version=dataset_version)
    return StagedPart(lake, "dialogs", Dialog, "row_digest", folder / f"part-{name}.parquet")


@lru_cache(_PARTS_OPEN)
def staged_problems(
    root: Path, benchmark: str, dataset_version: str, name: str
) -> StagedPart[Problem]:
    """Return the part of staged problems with this name. A process opens each part once."""
    lake = Lake(root)
    folder = lake.folder("problems", benchmark=benchmark, dataset_version=dataset_version)
    return StagedPart(lake, "problems", Problem, "problem_id", folder / f"part-{name}.parquet")


_CACHED = 64
"""Number of contexts that a process keeps in memory."""


def write_contexts(lake: Lake, contexts: Iterable[Context]) -> None:
    """Write the contexts that the lake lacks.

    Contexts of earlier stagings are not removed, because stored dialogues still need them.

    Raises:
        ValueError: the benchmark made an invalid context: its id is not the digest of its turns, or
            a turn is not scripted.
    """
    for context in contexts:
        if context.context_id != content_id(context.turns):
            raise ValueError(
                f"context {context.context_id!r}: the id is not the digest of its turns. Make the "
                "context with Context.of"
            )
        if any(turn.content is None for turn in context.turns):
            raise ValueError(
                f"context {context.context_id!r} has a turn without content. All turns of a "
                "context must be scripted"
            )
        keys = {"benchmark": context.benchmark, "dataset_version": context.dataset_version}
        if not lake.is_whole("contexts", _part(lake, context.context_id, **keys)):
            lake.write_part("contexts", [context], context.context_id, **keys)


def context_lengths(
    lake: Lake, dialogs: Iterable[Dialog], contexts: Iterable[Context]
) -> dict[str, tuple[int, ...]]:
    """Map each context to the total lengths of its first 0, 1, 2, ... turns, in characters.

    Args:
        lake: lake with the contexts that `contexts` lacks.
        dialogs: dialogs whose contexts are wanted.
        contexts: contexts that are in memory.
    """
    turn_lengths = {
        context.context_id: [len(turn.content or "") for turn in context.turns]
        for context in contexts
    }
    missing = {
        d.context_id: (d.benchmark, d.dataset_version)
        for d in dialogs
        if d.context_id not in (None, *turn_lengths)
    }
    for name, (benchmark, version) in missing.items():
        part = _part(lake, str(name), benchmark=benchmark, dataset_version=version)
        if part.exists():
            turns = (
                lake.read_arrow("contexts", [part], ["turns"])["turns"].combine_chunks().flatten()
            )
            turn_lengths[str(name)] = [len(text) for text in turns.field("content").to_pylist()]
    return {name: tuple(accumulate(lengths, initial=0)) for name, lengths in turn_lengths.items()}


def context_of(lake: Lake, dialog: Dialog) -> tuple[Turn, ...]:
    """Return a dialog's context: the turns before the dialog. A process reads each context once.

    Raises:
        CorruptRows: the lake lacks the context.
    """
    if dialog.context_id is None:
        return ()
    return _read(lake.root, dialog.benchmark, dialog.dataset_version, dialog.context_id).turns[
        : dialog.context_turns
    ]


@lru_cache(maxsize=_CACHED)
def _read(root: Path, benchmark: str, version: str, context_id: str) -> Context:
    lake = Lake(root)
    part = _part(lake, context_id, benchmark=benchmark, dataset_version=version)
    try:
        (context,) = lake.read_part("contexts", Context, part)
    except FileNotFoundError:
        raise CorruptRows(
            f"{part} is missing, and dialogs of {benchmark}, dataset version {version!r}, begin "
            "with it. Stage the data again: "
            f"parley stage {benchmark} --data DIR --dataset-version {version}"
        ) from None
    return context


def _part(lake: Lake, context_id: str, **keys: str) -> Path:
    return lake.folder("contexts", **keys) / f"part-{context_id}.parquet"
