"""Counts of requests to models: the one definition of asked, repeated, refused and paid."""

from pydantic import Field

from schemas.base import Frozen


class RequestCounts(Frozen):
    """Requests of one invocation for one run, to its model, its simulator, its judges and its embedder.

    A *send* is one request that goes out. Each send is counted by its reason, asked or repeated, and by its end, refused or paid:
    asked + repeated = refused + paid = sends. The cases that measure the drift of judges belong to the night and are left out.
    """

    asked: int = Field(default=0, ge=0)
    """Requests that a step wanted answered: each once, at its first send."""
    repeated: int = Field(default=0, ge=0)
    """Further sends of such a request, after a fault."""
    refused: int = Field(default=0, ge=0)
    """Sends that reached no model: there was no connection, or the endpoint answered with an error (401, 404, 429, 503)."""
    paid: int = Field(default=0, ge=0)
    """Sends that were answered with content, or that broke off after they were sent: the endpoint may have charged for those."""

    embedder: int = Field(default=0, ge=0)
    """Part of `paid`: sends to the embedder. A run's cost leaves them out."""

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
        """The numbers in one line."""
        of_embedder = f" ({self.embedder} by the embedder)" if self.embedder else ""
        return f"{self.asked} asked, {self.repeated} repeated; {self.refused} refused, {self.paid} paid{of_embedder}"
