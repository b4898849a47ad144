"""Counts of requests to models: the one definition of asked, repeated, refused and paid."""

from pydantic import Field

from schemas.base import Frozen


class RequestCounts(Frozen):
    """Requests of one invocation for one run, to its subject, simulator, judges and embedder.

    A *send* is one outgoing request. Each send is counted by its reason, asked or repeated, and by
    its end, refused or paid: asked + repeated = refused + paid = sends. Requests that measure the
    drift of judges belong to the night and are left out.
    """

    asked: int = Field(default=0, ge=0)
    """Number of requests that a step needed. Each counts once, at its first send."""
    repeated: int = Field(default=0, ge=0)
    """Number of sends that repeat a request after a fault."""
    refused: int = Field(default=0, ge=0)
    """Number of sends that reached no model: there was no connection, or the endpoint answered with
    an error (401, 404, 429, 503)."""
    paid: int = Field(default=0, ge=0)
    """Number of sends that were answered with content, or broke off after the request was sent. The
    endpoint may have charged for the latter."""

    embedder: int = Field(default=0, ge=0)
    """Number of sends to the embedder, a part of `paid`. A run's cost leaves them out."""

    def __sub__(self, other: "RequestCounts") -> "RequestCounts":
        return RequestCounts(
            asked=self.asked - other.asked,
            repeated=self.repeated - other.repeated,
            refused=self.refused - other.refused,
            paid=self.paid - other.paid,
            embedder=self.embedder - other.embedder,
        )

    @property
    def text(self) -> str:
        """Counts in one line."""
        embedded = f" ({self.embedder} by the embedder)" if self.embedder else ""
        return (
            f"{self.asked} asked, {self.repeated} repeated; "
            f"{self.refused} refused, {self.paid} paid{embedded}"
        )
