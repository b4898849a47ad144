"""Contexts in the lake: one part each, named by its content, so that a process reads only those that it needs, and each once."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Context, Dialog, Turn
from schemas.errors import CorruptRows
from tasks.storage.parquet_store import Lake

_HELD = 64
"""Contexts that a process keeps at hand."""


def write_contexts(lake: Lake, contexts: Iterable[Context]) -> None:
    """Write those that the lake lacks. Contexts of earlier editions stay: their dialogues are still shown.

    Raises:
        ValueError: a context whose id is not that of its turns, or with a turn that is not scripted; a defect of its benchmark.
    """
    for context in contexts:
        if context.context_id != content_id(context.turns):
            raise ValueError(
                f"context {context.context_id!r} does not hold the turns of that id: make it by Context.of"
            )
        if any(turn.content is None for turn in context.turns):
            raise ValueError(
                f"context {context.context_id!r} has a turn without content: a context is wholly scripted"
            )
        keys = {"benchmark": context.benchmark, "dataset_version": context.dataset_version}
        if not lake.is_whole("contexts", _part(lake, context.context_id, **keys)):
            lake.write_part("contexts", [context], context.context_id, **keys)


def context_lengths(
    lake: Lake, dialogs: Iterable[Dialog], given: Iterable[Context]
) -> dict[str, tuple[int, ...]]:
    """Context -> characters of its first 0, 1, 2, ... turns, of each that these dialogs name and that is given or in the lake."""
    known = {
        context.context_id: [len(turn.content or "") for turn in context.turns] for context in given
    }
    named = {
        d.context_id: (d.benchmark, d.dataset_version)
        for d in dialogs
        if d.context_id not in (None, *known)
    }
    for name, (benchmark, version) in named.items():
        part = _part(lake, str(name), benchmark=benchmark, dataset_version=version)
        if part.exists():
            turns = (
                lake.read_arrow("contexts", [part], ["turns"])["turns"].combine_chunks().flatten()
            )
            known[str(name)] = [len(text) for text in turns.field("content").to_pylist()]
    return {name: tuple(accumulate(lengths, initial=0)) for name, lengths in known.items()}


def context_of(lake: Lake, dialog: Dialog) -> tuple[Turn, ...]:
    """The turns before a dialog's own. Each context is read once a process, and shared by all dialogs that name it.

    Raises:
        CorruptRows: the lake lacks it.
    """
    if dialog.context_id is None:
        return ()
    return _read(lake.root, dialog.benchmark, dialog.dataset_version, dialog.context_id).turns[
        : dialog.context_turns
    ]


@lru_cache(maxsize=_HELD)
def _read(root: Path, benchmark: str, version: str, context_id: str) -> Context:
    lake = Lake(root)
    part = _part(lake, context_id, benchmark=benchmark, dataset_version=version)
    try:
        (context,) = lake.read_part("contexts", Context, part)
    except FileNotFoundError:
        raise CorruptRows(
            f"{part} is gone: dialogs of {benchmark}, dataset version {version!r}, begin with it. Stage the data again:"
            f" parley stage {benchmark} --data DIR --dataset-version {version}"
        ) from None
    return context


def _part(lake: Lake, context_id: str, **keys: str) -> Path:
    return lake.folder("contexts", **keys) / f"part-{context_id}.parquet"
