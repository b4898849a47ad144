"""Embedders: vectors of texts from an OpenAI-compatible `/v1/embeddings` endpoint.

Parley's own server is one. Session, key, limit, outage and retries are those of the chat models
(`openai_model.py`).
"""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from schemas.errors import ModelUnavailable
from schemas.outside.display import plain_line
from schemas.run import EmbedderIdentity
from tasks.language.access import ModelAccess, client_access
from tasks.language.chat_model import OnSend, ignore_send
from tasks.language.endpoints.answers import MalformedAnswer
from tasks.language.endpoints.endpoint_pool import EndpointPool
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.endpoints.request_parts import fields_to_send
from tasks.language.opening import CHECK, CHECK_TRIES

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[tuple[int], np.dtype[np.float32]]

TEXTS_A_REQUEST = 32
_CHARACTERS_A_REQUEST = 200_000
"""Maximum characters of a request, about 50,000 tokens. A longer text is sent alone."""
CHECK_TEXT = "Is this endpoint there?"
"""Text of the embedding request that checks an endpoint before a run."""


class Embedder(Protocol):
    """Embedder that returns float32 vectors of length 1.

    It belongs to the event loop of its first call.
    """

    @property
    def identity(self) -> EmbedderIdentity:
        """Return the name and revision under which vectors are stored.

        Embedders with different weights have different identities.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return one vector per text, in their order, or None for a text that is too long.

        Raises:
            ModelUnavailable: No usable answer after all retries.
        """
        ...

    async def aclose(self) -> None:
        """Stop using the endpoint. The embedder answers no more requests."""
        ...


class TextVectors(Protocol):
    """Vectors of texts for one participant. Each text is requested once and then stored."""

    async def find(self, texts: Sequence[str]) -> "Mapping[str, Vector]":
        """Return the vector of each text. Blank and too long texts have none.

        Raises:
            ModelUnavailable: No usable answer after all retries.
        """
        ...


@dataclass(frozen=True)
class Embedded:
    """Result of one embedding request."""

    vectors: "list[Vector]"
    served_model: str | None
    input_tokens: int | None = None
    """Tokens of the texts. None if the endpoint did not count them."""


class EndpointEmbedder:
    """Embedder at an endpoint with `/embeddings`.

    Args:
        identity: Identity of the embedder.
        find_access: Called at the first request, so that Parley's own server starts only if it is
            needed.
        environ: Environment variables.
        on_send: See `OpenAIModel`.
    """

    def __init__(
        self,
        identity: EmbedderIdentity,
        find_access: Callable[[], ModelAccess[EmbedderIdentity]],
        environ: Mapping[str, str] | None = None,
        *,
        on_send: OnSend = ignore_send,
    ) -> None:
        self.identity, self._find_access = identity, find_access
        self._environ, self._on_send = environ, on_send
        self.on_answer: Callable[[Sequence[str], int | None], None] = lambda _texts, _tokens: None
        """Callback for each answer, with its texts and their tokens as counted by the endpoint."""

    @cached_property
    def _model(self) -> OpenAIModel:
        """Client of the endpoint. Raises ConfigError if the key's variable is empty."""
        access = client_access(self._find_access())
        return OpenAIModel(access, environ=self._environ, on_send=self._on_send)

    async def embed(self, texts: Sequence[str]) -> "list[Vector | None]":
        """Return the vectors of texts. See `Embedder.embed`."""
        batches = await asyncio.gather(*(self._batch(batch) for batch in _batches(texts)))
        return [vector for batch in batches for vector in batch]

    async def _batch(self, texts: Sequence[str]) -> "list[Vector | None]":
        outcome, _, n_sent = await self._model.send_until_final(lambda pool: self.ask(pool, texts))
        if not isinstance(outcome, Fault):
            self.on_answer(texts, outcome.input_tokens)
            return list(outcome.vectors)
        if outcome.kind != "context_length":
            shown = plain_line(repr(texts[0]), 60)
            raise ModelUnavailable(
                f"embedder {self.identity.label} at {self._model.url}: {outcome.text}; the request"
                f" had {len(texts)} texts, the first one {shown}. Exclude such texts from"
                " texts_to_embed, or use another embedder",
                permanent=True,
                n_calls=n_sent,
            )
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return [
            vector for part in (texts[:half], texts[half:]) for vector in await self._batch(part)
        ]

    async def ask(self, pool: EndpointPool, texts: Sequence[str]) -> Embedded | Fault:
        """Send one embedding request, without retries."""
        body = {"model": self.identity.name, "input": list(texts), "encoding_format": "base64"}
        body |= fields_to_send(self.identity.request)
        outcome = await self._model.call(pool, "/embeddings", body)
        if isinstance(outcome, Fault):
            return outcome
        try:
            return read_vectors(outcome, len(texts))
        except MalformedAnswer as error:
            return Fault("transient", self._model.shown(str(error)), 200, is_paid=True)

    async def check(self) -> None:
        """Check before a run that the endpoint answers and accepts the key and the model.

        Raises:
            ModelUnavailable: The endpoint does not answer with vectors.
        """
        for tries in range(1, CHECK_TRIES + 1):
            outcome = await self.ask(self._model.pool(), (CHECK_TEXT,))
            if not isinstance(outcome, Fault):
                return
            if outcome.kind == "permanent" or tries == CHECK_TRIES:
                raise self._model.unavailable(outcome, tries)
            await asyncio.sleep(0.3 * tries)

    async def aclose(self) -> None:
        """Leave the endpoint's pool."""
        if "_model" in vars(self):
            await self._model.aclose()


async def check_embedder(
    access: ModelAccess[EmbedderIdentity], environ: Mapping[str, str] | None = None
) -> None:
    """Check an embedder.

    See `EndpointEmbedder.check`. Raises ConfigError if the key's variable is empty.
    """
    checked = replace(access, policy=CHECK)
    async with aclosing(EndpointEmbedder(access.identity, lambda: checked, environ)) as embedder:
        await embedder.check()


def _batches(texts: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    room = 0
    for text in texts:
        if not batches or len(batches[-1]) == TEXTS_A_REQUEST or len(text) > room:
            batches.append([])
            room = _CHARACTERS_A_REQUEST
        batches[-1].append(text)
        room -= len(text)
    return batches


def read_vectors(data: bytes, n_texts: int) -> Embedded:
    """Return the vectors in a response body, in the order of the texts, scaled to length 1.

    Raises:
        MalformedAnswer: The number of vectors is wrong, their lengths differ, or one has no
            direction.
    """
    import numpy as np

    try:
        body: Any = json.loads(data)
        rows = sorted(body["data"], key=lambda row: row["index"])
        vectors = [_numbers(row["embedding"]) for row in rows]
        numbers = [row["index"] for row in rows]
        matrix = np.array(vectors, dtype=np.float64)
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedAnswer(
            f"the body contains no embeddings ({len(data)} bytes: {type(error).__name__})"
        ) from None
    if numbers != list(range(n_texts)):
        raise MalformedAnswer(
            f"{len(numbers)} vectors for {n_texts} texts were returned, or with wrong indices"
        )
    if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
        raise MalformedAnswer("a vector is zero or not finite")
    served, usage = body.get("model"), body.get("usage")
    n_tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return Embedded(
        list((matrix / norms).astype(np.float32)),
        served if isinstance(served, str) and served else None,
        n_tokens if isinstance(n_tokens, int) and n_tokens >= 0 else None,
    )


def _numbers(embedding: Any) -> Any:
    import numpy as np

    return (
        np.frombuffer(base64.b64decode(embedding), "<f4")
        if isinstance(embedding, str)
        else embedding
    )
