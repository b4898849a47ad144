"""The kept vectors: each text is asked for once by each embedder, whichever run, benchmark or seat wants it.

Id: the text's digest and the embedder's. They lie in the lake's table `embeddings`, in a folder for each embedder, in parts of
some hundred texts, so that a kill costs at most one part. Where two processes write the same text, the first part by name counts.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas.content_id import content_id, text_digest
from schemas.errors import ModelUnavailable
from schemas.tables import TABLES
from tasks.language.embedding import Embedder
from tasks.storage.parquet_store import Lake, listing_again

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

TABLE = "embeddings"
TEXTS_A_PART = 256
_MOST_HELD = 20_000
"""Vectors read from the lake that a process holds in memory."""
_ABANDONED_S = 3600.0
"""An unfinished file of this age is a killed writer's."""


class Vectors:
    """The kept vectors of one embedder, as one process sees them. See `TextVectors`. For one event loop."""

    def __init__(self, lake: Lake, embedder: Embedder) -> None:
        self._lake, self._embedder = lake, embedder
        self._name = embedder.identity.digest
        self.n_asked = 0
        """Texts that were sent to the embedder."""
        self._held: dict[str, Vector] = {}
        """Read from the lake."""
        self._waiting: dict[str, Vector] = {}
        """Not written yet."""
        self._under_way: dict[str, asyncio.Task[dict[str, Vector]]] = {}
        self._part_of: dict[str, Path] = {}
        self._seen: set[Path] = set()
        self._dim: int | None = None

    async def find(self, texts: Sequence[str]) -> "Mapping[str, Vector]":
        """Text -> vector. Blank texts, and texts longer than the embedder takes, have none.

        Raises:
            ModelUnavailable: no usable answer after all retries. What was answered before is kept.
        """
        wanted = {text_digest(text): text for text in texts if text.strip()}
        found = self._kept(wanted)
        self._begin({digest: text for digest, text in wanted.items() if digest not in found and digest not in self._under_way})
        awaited = dict.fromkeys(self._under_way[digest] for digest in wanted if digest in self._under_way)
        for new in await asyncio.gather(*map(asyncio.shield, awaited)):
            found |= {digest: vector for digest, vector in new.items() if digest in wanted}
        return {text: found[digest] for digest, text in wanted.items() if digest in found}

    def _begin(self, missing: Mapping[str, str]) -> None:
        """Ask for the texts, one part after the other, so that a kill costs one part."""
        texts, before = list(missing.items()), None
        self.n_asked += len(texts)
        for start in range(0, len(texts), TEXTS_A_PART):
            part = dict(texts[start : start + TEXTS_A_PART])
            before = asyncio.get_running_loop().create_task(self._ask(part, before))
            self._under_way |= dict.fromkeys(part, before)

    async def _ask(self, texts: Mapping[str, str], before: "asyncio.Task[dict[str, Vector]] | None") -> "dict[str, Vector]":
        try:
            if before is not None:
                await before
            vectors = await self._embedder.embed(tuple(texts.values()))
            new = {digest: vector for digest, vector in zip(texts, vectors, strict=True) if vector is not None}
            self._check_length(new)
            self._waiting |= new
            if len(self._waiting) >= TEXTS_A_PART:
                self.keep()
            return new
        finally:
            for digest in texts:
                del self._under_way[digest]

    def keep(self) -> None:
        """Write what waits.

        Raises:
            OSError: it could not be written.
        """
        if not self._waiting:
            return
        rows = _rows(self._name, self._waiting)
        part = self._lake.write_arrow(TABLE, rows, content_id(list(self._waiting)), embedder=self._name)
        self._part_of |= dict.fromkeys(self._waiting, part)
        self._seen.add(part)
        self._waiting.clear()

    async def aclose(self) -> None:
        """Write what waits, and leave the embedder."""
        try:
            self.keep()
            self._remove_abandoned()
        finally:
            await self._embedder.aclose()

    def _kept(self, wanted: Mapping[str, str]) -> "dict[str, Vector]":
        """What of it is held here or lies in the lake."""
        if any(digest not in self._held and digest not in self._waiting for digest in wanted):
            self._look_again()
        parts: dict[Path, set[str]] = {}
        for digest in wanted.keys() - self._held.keys() - self._waiting.keys() & self._part_of.keys():
            parts.setdefault(self._part_of[digest], set()).add(digest)
        for part, digests in parts.items():
            rows = self._lake.read_arrow(TABLE, [part])
            names = rows["text_digest"].to_pylist()
            self._held |= {name: vector for name, vector in zip(names, _vectors(rows), strict=True) if name in digests}
        known = {**self._held, **self._waiting}
        found = {digest: known[digest] for digest in wanted if digest in known}
        if len(self._held) > _MOST_HELD:
            self._held.clear()
        return found

    def _look_again(self) -> None:
        """Learn which texts the parts hold that other processes have written since."""
        for part in listing_again(lambda: self._lake.parts(TABLE, embedder=self._name)):
            if part not in self._seen:
                for digest in self._lake.read_arrow(TABLE, [part], ["text_digest"])["text_digest"].to_pylist():
                    self._part_of.setdefault(digest, part)
                self._seen.add(part)

    def _check_length(self, new: "Mapping[str, Vector]") -> None:
        """Raise ModelUnavailable where a vector has another length than those before it."""
        if self._dim is None:
            first = next(iter(self._part_of.values()), None)
            before = _vectors(self._lake.read_arrow(TABLE, [first]).slice(0, 1)) if first else list(new.values())
            self._dim = len(before[0]) if before else None
        others = {len(vector) for vector in new.values()} - {self._dim}
        if others:
            identity = self._embedder.identity
            raise ModelUnavailable(
                f"embedder {identity.label}: a vector has {others.pop()} numbers, those kept of it have {self._dim}. Another"
                f" model answers by this name: state which by --embedder-revision (it was {identity.revision!r})",
                permanent=True,
            )

    def _remove_abandoned(self) -> None:
        folder = self._lake.folder(TABLE, embedder=self._name)
        for path in folder.glob(".writing-*"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED_S:
                    path.unlink()


def _rows(embedder: str, vectors: "Mapping[str, Vector]") -> pa.Table:
    """Built without a Python object a number."""
    import numpy as np

    schema = TABLES[TABLE].schema
    matrix = np.stack(list(vectors.values()))
    ends = pa.array(np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32))
    lists = pa.ListArray.from_arrays(ends, pa.array(matrix.ravel()), type=schema.field("vector").type)
    return pa.Table.from_arrays([pa.array([embedder] * len(vectors)), pa.array(list(vectors)), lists], schema=schema)


def _vectors(rows: pa.Table) -> "list[Vector]":
    column = rows["vector"].combine_chunks()
    lengths = column.value_lengths()
    return list(column.flatten().to_numpy().reshape(len(rows), lengths[0].as_py())) if len(rows) else []
