"""Contexts in the lake, each in a part of its own that is named by its content.

So a process reads only the contexts that it needs, and each of them once.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Context, Dialog, Turn
from schemas.errors import CorruptRows
from tasks.storage.parquet_store import Lake

_CACHED = 64
"""Number of contexts that a process keeps in memory."""


def write_contexts(lake: Lake, contexts: Iterable[Context]) -> None:
    """Write the contexts that the lake lacks.

    Contexts of earlier editions stay, because results show their dialogues.

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
    """Map each context to the numbers of characters of its first 0, 1, 2, ... turns.

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
    """Return the turns that precede a dialog's own. A process reads each context once.

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
