"""Embeddings: the identity of an embedder, and the rows that store its vectors."""

from typing import Literal, NewType

from pydantic import Field

from schemas.base import Frozen, added_later
from schemas.content_id import content_id

Float32 = NewType("Float32", float)
"""Number stored in four bytes."""


class EmbedderIdentity(Frozen):
    """Properties of an embedder that can change its vectors.

    Its address and key are in ModelEndpoint.
    """

    provider: Literal["embedded", "openai"]
    """`embedded`: FlagEmbedding in a process that Parley starts. `openai`: an endpoint."""
    name: str
    revision: str = ""
    """Revision that the user states, or `unpinned-<UTC date>` if an endpoint's weights cannot be
    known. For a local embedder, the engine's version."""
    weights_digest: str = ""
    pooling: Literal["mean", "cls", "endpoint"] = "endpoint"
    """Method that combines the vectors of a text's tokens into one."""
    normalised: bool = True
    """True if every vector has length 1."""
    max_length: int | None = Field(default=None, ge=1)
    """Number of tokens of a text that are embedded; further tokens are cut off. None if the
    endpoint decides, or refuses a longer text."""
    request: tuple[tuple[str, str], ...] = added_later(())
    """Further fields of an endpoint's request: (name, canonical JSON), sorted, such as
    `("dimensions", "256")`."""

    @property
    def is_hosted(self) -> bool:
        """True if an endpoint serves the embedder."""
        return self.provider == "openai"

    @property
    def label(self) -> str:
        """Name of the embedder in tables and messages, such as `embedded:minilm`."""
        return f"{self.provider}:{self.name}"

    @property
    def digest(self) -> str:
        """Id of the embedder beside its stored vectors: 32 hex digits."""
        return content_id(self)


class Embedding(Frozen):
    """Vector of one text by one embedder. The two digests are its id."""

    embedder: str
    """Digest of the EmbedderIdentity."""
    text_digest: str
    vector: tuple[Float32, ...]
