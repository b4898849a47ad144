"""Stored vectors: each embedder embeds a text only once, for all runs, benchmarks and roles.

A vector's id consists of the digests of text and embedder. Vectors are in the lake's table
`embeddings`, in a folder for each embedder. Each answer is first written to a segment beside the
parts, and a part is written once there are some hundreds of answers. So a kill costs only the
requests in flight, and each process sees the answers of the others. If two processes embed a text
simultaneously, the vector in the first part by name counts.
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
from tasks.storage.journaling.segments import Form
from tasks.storage.paid_calls import Calls, CallsInFlight
from tasks.storage.parquet_store import Lake, listing_again

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

TABLE = "embeddings"
TEXTS_A_PART = 256
_REQUESTS_AT_ONCE = 8
"""Maximum number of requests in flight for one call of `find`.

The endpoint's concurrency may be lower.
"""
_MOST_CACHED = 20_000
"""Maximum number of vectors from the lake that a process keeps in memory."""
_ABANDONED_S = 3600.0
"""Age in seconds at which an unfinished file counts as left by a killed process."""


class Vectors:
    """Store of one embedder's vectors, as seen by one process. For use in one event loop.

    It implements `TextVectors`.
    """

    def __init__(self, lake: Lake, embedder: Embedder) -> None:
        self._lake, self._embedder = lake, embedder
        self._name = embedder.identity.digest
        self._cached: dict[str, Vector] = {}
        """Vectors read from the lake."""
        self._calls = Calls(
            lake.folder(TABLE, embedder=self._name), vector_form(), fsync=lake.fsync
        )
        """The embedder's answers that are not in a part of the lake yet."""
        self._in_memory = ChainMap(self._cached, self._calls.own, self._calls.others)
        """All vectors in memory: from the lake, from this process, and from other processes."""
        self._refused = set[str]()
        """Digests of texts for which the embedder returned no vector. They are not sent again."""
        self._in_flight: CallsInFlight[Vector | None] = CallsInFlight()
        self._part_of: dict[str, Path] = {}
        self._read_parts: set[Path] = set()
        self._dim: int | None = None

    async def find(self, texts: Sequence[str]) -> "Mapping[str, Vector]":
        """Map each text to its vector. Blank texts and texts that are too long have none.

        Raises:
            ModelUnavailable: the embedder gave no usable answer after all retries. Other answers
                are stored.
        """
        digests = {text_digest(text): text for text in texts if text.strip()}
        wanted = {digest: text for digest, text in digests.items() if digest not in self._refused}
        vectors = self._stored(wanted)
        missing = [digest for digest in wanted if digest not in vectors]
        gate, faults = asyncio.Semaphore(_REQUESTS_AT_ONCE), list[Exception]()

        async def ask(some: Sequence[str]) -> "Mapping[str, Vector | None]":
            async with gate:
                if faults:  # After a fault, no further request is sent.
                    raise faults[0]
                try:
                    return await self._ask({digest: wanted[digest] for digest in some})
                except Exception as fault:
                    faults.append(fault)
                    raise

        # All are awaited, even after a fault: requests in flight are paid, so their answers are
        # stored.
        for new in await asyncio.gather(
            *(self._in_flight.find_all(some, ask) for some in self._groups(missing)),
            return_exceptions=True,
        ):
            if isinstance(new, BaseException):
                raise new
            vectors |= {digest: vector for digest, vector in new.items() if vector is not None}
        return {text: vectors[digest] for digest, text in wanted.items() if digest in vectors}

    def _groups(self, digests: Sequence[str]) -> list[list[str]]:
        """Group texts by request. Texts that are in flight need none, and are in the last group."""
        in_flight = [digest for digest in digests if digest in self._in_flight]
        new = [digest for digest in digests if digest not in self._in_flight]
        starts = range(0, len(new), TEXTS_A_REQUEST)
        return [*(new[start : start + TEXTS_A_REQUEST] for start in starts), in_flight]

    async def _ask(self, texts: Mapping[str, str]) -> "dict[str, Vector | None]":
        """Request vectors by digest, and store them. None for a text that is refused."""
        answers = await self._embedder.embed(tuple(texts.values()))
        vectors = dict(zip(texts, answers, strict=True))
        new = {digest: vector for digest, vector in vectors.items() if vector is not None}
        self._refused |= vectors.keys() - new.keys()
        self._check_length(new)
        if new:
            self._calls.put(new)
        if len(self._calls.own) >= TEXTS_A_PART:
            self.keep()
        return vectors

    def keep(self) -> None:
        """Write this process's answers to a part.

        Raises:
            OSError: the part could not be written.
        """
        self._write_part(self._calls.own)
        self._calls.discard()

    def _write_part(self, vectors: "Mapping[str, Vector]") -> None:
        if vectors:
            part = self._lake.write_arrow(
                TABLE, _rows(self._name, vectors), content_id(list(vectors)), embedder=self._name
            )
            self._part_of |= dict.fromkeys(vectors, part)
            self._read_parts.add(part)

    async def aclose(self) -> None:
        """Write the remaining answers, and close the embedder."""
        try:
            self.keep()
            for answers in self._calls.take_abandoned():
                self._write_part(
                    {
                        digest: vector
                        for digest, vector in answers.items()
                        if digest not in self._part_of
                    }
                )
            self._remove_abandoned()
        finally:
            await self._embedder.aclose()

    def _stored(self, wanted: Mapping[str, str]) -> "dict[str, Vector]":
        """Return the wanted vectors that are in memory or in the lake."""
        if any(digest not in self._in_memory for digest in wanted):
            self._refresh()
        parts: dict[Path, set[str]] = {}
        for digest in (wanted.keys() - self._in_memory.keys()) & self._part_of.keys():
            parts.setdefault(self._part_of[digest], set()).add(digest)
        for part, digests in parts.items():
            rows = self._lake.read_arrow(TABLE, [part])
            names = rows["text_digest"].to_pylist()
            self._cached |= {
                name: vector
                for name, vector in zip(names, _vectors(rows), strict=True)
                if name in digests
            }
        vectors = {
            digest: self._in_memory[digest] for digest in wanted if digest in self._in_memory
        }
        if len(self._cached) > _MOST_CACHED:
            self._cached.clear()
        return vectors

    def _refresh(self) -> None:
        """Read new segments of other processes, and the texts' digests of new parts."""
        self._calls.refresh()
        for part in listing_again(lambda: self._lake.parts(TABLE, embedder=self._name)):
            if part not in self._read_parts:
                for digest in self._lake.read_arrow(TABLE, [part], ["text_digest"])[
                    "text_digest"
                ].to_pylist():
                    self._part_of.setdefault(digest, part)
                self._read_parts.add(part)

    def _check_length(self, new: "Mapping[str, Vector]") -> None:
        """Raise ModelUnavailable if a vector's length differs from that of earlier vectors."""
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
                f"embedder {identity.label}: a vector has {others.pop()} numbers, its stored "
                f"vectors have {self._dim}. Another model answers under this name. Name its "
                f"revision with --embedder-revision (it was {identity.revision!r})",
                permanent=True,
            )

    def _remove_abandoned(self) -> None:
        folder = self._lake.folder(TABLE, embedder=self._name)
        for path in folder.glob(".writing-*"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED_S:
                    path.unlink()


def vector_form() -> "Form[Vector]":
    """Return the form of vectors in segments: 32-bit floats in base64, by the text's digest."""
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
    """Return rows of the table `embeddings`, built without a Python object for each number."""
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
