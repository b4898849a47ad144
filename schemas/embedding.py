"""Embeddings: who computes them, and how they are kept."""

from typing import Literal, NewType

from pydantic import Field

from schemas.base import Frozen, added_later
from schemas.content_id import content_id

Float32 = NewType("Float32", float)
"""A number kept in four bytes."""


class EmbedderIdentity(Frozen):
    """Every property that can change an embedder's vectors. Its address and key are in ModelEndpoint."""

    provider: Literal["embedded", "openai"]
    """`embedded`: FlagEmbedding in a process of Parley's own."""
    name: str
    revision: str = ""
    """Stated by the user, or `unpinned-<UTC date>` where an endpoint's weights cannot be known; engine version for local ones."""
    weights_digest: str = ""
    pooling: Literal["mean", "cls", "endpoint"] = "endpoint"
    """How the vectors of a text's tokens become one."""
    normalised: bool = True
    """Every vector has length 1."""
    max_length: int | None = Field(default=None, ge=1)
    """Tokens of a text that count, the others are cut off; None where the endpoint decides, or refuses the text."""
    request: tuple[tuple[str, str], ...] = added_later(())
    """(name, canonical JSON) of further fields of an endpoint's request, sorted: `("dimensions", "256")`."""

    @property
    def is_hosted(self) -> bool:
        """Whether others serve it."""
        return self.provider == "openai"

    @property
    def label(self) -> str:
        """Its name in tables and messages, for example `embedded:minilm`."""
        return f"{self.provider}:{self.name}"

    @property
    def digest(self) -> str:
        """Names it beside its kept vectors: 32 hex digits."""
        return content_id(self)


class Embedding(Frozen):
    """The vector of one text by one embedder. The two digests are its id."""

    embedder: str
    """Digest of the EmbedderIdentity."""
    text_digest: str
    vector: tuple[Float32, ...]
