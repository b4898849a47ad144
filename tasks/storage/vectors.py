"""The kept vectors: each text is asked for once by each embedder, whichever run, benchmark or seat wants it.

Id: the text's digest and the embedder's. They lie in the lake's table `embeddings`, in a folder for each embedder. Each answer is
a line of a segment beside the parts as soon as it has come, and a part of the table once there are some hundred: a kill costs the
requests under way, and each process finds what the others were answered. Two processes that need the same text at the same
moment may both ask for it; the first part by name counts.
"""

import asyncio
import base64
import time
from collections import ChainMap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from schemas.content_id import content_id, text_digest
from schemas.errors import ModelUnavailable
from schemas.lake.tables import TABLES
from tasks.language.embedding import TEXTS_A_REQUEST, Embedder
from tasks.storage.paid_calls import Calls, Form
from tasks.storage.parquet_store import Lake, listing_again

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

TABLE = "embeddings"
TEXTS_A_PART = 256
_REQUESTS_AT_ONCE = 8
"""Requests under way for one call of `find`; the endpoint's own concurrency may allow fewer."""
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
        self._calls = Calls(
            lake.folder(TABLE, embedder=self._name), vector_form(), fsync=lake.fsync
        )
        """Answers that are in no part yet."""
        self._near = ChainMap(self._held, self._calls.own, self._calls.others)
        """All that needs no look into a part."""
        self._refused = set[str]()
        """Texts that the embedder gave no vector for: it would give none now."""
        self._under_way: dict[str, asyncio.Task[dict[str, Vector]]] = {}
        self._part_of: dict[str, Path] = {}
        self._seen: set[Path] = set()
        self._dim: int | None = None

    async def find(self, texts: Sequence[str]) -> "Mapping[str, Vector]":
        """Text -> vector. Blank texts, and texts longer than the embedder takes, have none.

        Raises:
            ModelUnavailable: no usable answer after all retries. All answers are kept.
        """
        digests = {text_digest(text): text for text in texts if text.strip()}
        wanted = {digest: text for digest, text in digests.items() if digest not in self._refused}
        found = self._kept(wanted)
        self._begin(
            {
                digest: text
                for digest, text in wanted.items()
                if digest not in found and digest not in self._under_way
            }
        )
        awaited = dict.fromkeys(
            self._under_way[digest] for digest in wanted if digest in self._under_way
        )
        # All of them are waited for, also after a fault: what is under way is paid, and has to be kept.
        for new in await asyncio.gather(*map(asyncio.shield, awaited), return_exceptions=True):
            if isinstance(new, BaseException):
                raise new
            found |= {digest: vector for digest, vector in new.items() if digest in wanted}
        return {text: found[digest] for digest, text in wanted.items() if digest in found}

    def _begin(self, missing: Mapping[str, str]) -> None:
        """Ask for the texts, some requests at once; after a fault no more begin."""
        texts = list(missing.items())
        tasks: list[asyncio.Task[dict[str, Vector]]] = []
        faults: list[Exception] = []
        self.n_asked += len(texts)
        for start in range(0, len(texts), TEXTS_A_REQUEST):
            some = dict(texts[start : start + TEXTS_A_REQUEST])
            before = tasks[-_REQUESTS_AT_ONCE] if len(tasks) >= _REQUESTS_AT_ONCE else None
            tasks.append(asyncio.get_running_loop().create_task(self._ask(some, before, faults)))
            self._under_way |= dict.fromkeys(some, tasks[-1])

    async def _ask(
        self,
        texts: Mapping[str, str],
        before: "asyncio.Task[dict[str, Vector]] | None",
        faults: list[Exception],
    ) -> "dict[str, Vector]":
        try:
            if before is not None:
                await asyncio.wait((before,))
            if faults:
                raise faults[0]
            vectors = await self._embedder.embed(tuple(texts.values()))
            new = {
                digest: vector
                for digest, vector in zip(texts, vectors, strict=True)
                if vector is not None
            }
            self._refused |= texts.keys() - new.keys()
            self._check_length(new)
            if new:
                self._calls.put(new)
            if len(self._calls.own) >= TEXTS_A_PART:
                self.keep()
            return new
        except Exception as fault:
            faults.append(fault)
            raise
        finally:
            for digest in texts:
                del self._under_way[digest]

    def keep(self) -> None:
        """Make a part of what this process was answered.

        Raises:
            OSError: it could not be written.
        """
        self._write_part(self._calls.own)
        self._calls.discard()

    def _write_part(self, vectors: "Mapping[str, Vector]") -> None:
        if vectors:
            part = self._lake.write_arrow(
                TABLE, _rows(self._name, vectors), content_id(list(vectors)), embedder=self._name
            )
            self._part_of |= dict.fromkeys(vectors, part)
            self._seen.add(part)

    async def aclose(self) -> None:
        """Write what waits, and leave the embedder."""
        try:
            self.keep()
            for left in self._calls.take_abandoned():
                self._write_part(
                    {
                        digest: vector
                        for digest, vector in left.items()
                        if digest not in self._part_of
                    }
                )
            self._remove_abandoned()
        finally:
            await self._embedder.aclose()

    def _kept(self, wanted: Mapping[str, str]) -> "dict[str, Vector]":
        """What of it is held here or lies in the lake."""
        if any(digest not in self._near for digest in wanted):
            self._look_again()
        parts: dict[Path, set[str]] = {}
        for digest in (wanted.keys() - self._near.keys()) & self._part_of.keys():
            parts.setdefault(self._part_of[digest], set()).add(digest)
        for part, digests in parts.items():
            rows = self._lake.read_arrow(TABLE, [part])
            names = rows["text_digest"].to_pylist()
            self._held |= {
                name: vector
                for name, vector in zip(names, _vectors(rows), strict=True)
                if name in digests
            }
        found = {digest: self._near[digest] for digest in wanted if digest in self._near}
        if len(self._held) > _MOST_HELD:
            self._held.clear()
        return found

    def _look_again(self) -> None:
        """Learn which texts the parts and segments hold that other processes have written since."""
        self._calls.refresh()
        for part in listing_again(lambda: self._lake.parts(TABLE, embedder=self._name)):
            if part not in self._seen:
                for digest in self._lake.read_arrow(TABLE, [part], ["text_digest"])[
                    "text_digest"
                ].to_pylist():
                    self._part_of.setdefault(digest, part)
                self._seen.add(part)

    def _check_length(self, new: "Mapping[str, Vector]") -> None:
        """Raise ModelUnavailable where a vector has another length than those before it."""
        if self._dim is None:
            first = next(iter(self._part_of.values()), None)
            before = (
                _vectors(self._lake.read_arrow(TABLE, [first]).slice(0, 1))
                if first
                else list(new.values())
            )
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


def vector_form() -> "Form[Vector]":
    """Return the form of vectors in segments: text digest -> the numbers as 32-bit floats, in base64."""
    import numpy as np

    def numbers(text: str) -> "Vector":
        return np.frombuffer(base64.b64decode(text), dtype=np.float32)

    def load_old(row: Mapping[str, Any]) -> "Mapping[str, Vector]":
        return dict(
            zip(
                row["digests"],
                numbers(row["vectors"]).reshape(len(row["digests"]), -1),
                strict=True,
            )
        )

    return Form(
        "vectors of texts",
        lambda row: numbers(row["answer"]),
        lambda vector: {"answer": base64.b64encode(vector.tobytes()).decode("ascii")},
        load_old=load_old,
    )


def _rows(embedder: str, vectors: "Mapping[str, Vector]") -> pa.Table:
    """Built without a Python object a number."""
    import numpy as np

    schema = TABLES[TABLE].schema
    matrix = np.stack(list(vectors.values()))
    ends = pa.array(np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32))
    lists = pa.ListArray.from_arrays(
        ends, pa.array(matrix.ravel()), type=schema.field("vector").type
    )
    return pa.Table.from_arrays(
        [pa.array([embedder] * len(vectors)), pa.array(list(vectors)), lists], schema=schema
    )


def _vectors(rows: pa.Table) -> "list[Vector]":
    column = rows["vector"].combine_chunks()
    lengths = column.value_lengths()
    return (
        list(column.flatten().to_numpy().reshape(len(rows), lengths[0].as_py()))
        if len(rows)
        else []
    )
