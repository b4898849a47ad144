"""Access to a model: identity, endpoint, form of the requests, and limits of the calls.

An access can be pickled, and contains no key. `tasks.language.opening` opens the model in any
process.
"""

from dataclasses import dataclass, field, replace
from typing import Generic, Self

from typing_extensions import TypeVar

from schemas.run import EmbedderIdentity, EndpointProfile, ModelEndpoint, ModelIdentity


@dataclass(frozen=True)
class OutagePolicy:
    """Rules that say when an endpoint counts as down, and how long requests wait for it.

    They cannot change an answer.
    """

    faults: int = 8
    """Number of consecutive faults, of all requests together, that can start an outage."""
    silence_s: float = 5.0
    """Minimum seconds without any response that `faults` faults must span to start an outage."""
    patience_s: float = 300.0
    """Seconds for which requests wait for the endpoint. After that, they fail immediately."""
    pause_s: float = 0.5
    """Seconds before the first probe. The pause doubles with each failed probe."""
    max_pause_s: float = 15.0


@dataclass(frozen=True)
class CallPolicy:
    """Limits and waits of calls to one endpoint. None of them can change an answer."""

    concurrency: int = 16
    """Maximum number of requests in flight, 1 or more: of all workers in a plan, of this process in
    an open model. Replicas of an endpoint share it evenly."""
    connect_s: float = 10.0
    timeout_s: float = 300.0
    """Time limit in seconds of one request, including the connection."""
    max_tries: int = 8
    """Maximum number of tries of one request.

    Tries during an outage of the endpoint do not count.
    """
    retry_window_s: float = 900.0
    """Seconds after the first try of a request after which no new try starts.

    Waiting for the end of an outage does not count.
    """
    backoff_s: float = 0.5
    """Maximum wait in seconds before the second try. It doubles with each try (full jitter)."""
    max_backoff_s: float = 30.0
    max_retry_after_s: float = 120.0
    """Maximum seconds of a Retry-After. A longer one is cut to this. If it exceeds the rest of
    `retry_window_s`, the request fails at once."""
    check_served_model: bool = True
    """Reject answers by another model."""
    outage: OutagePolicy = field(default_factory=OutagePolicy)


Identity = TypeVar(
    "Identity",
    bound=ModelIdentity | EmbedderIdentity,
    default=ModelIdentity,
    covariant=True,
)


@dataclass(frozen=True)
class ModelAccess(Generic[Identity]):
    """Access to the model of one role: subject, simulator, judge or embedder."""

    identity: Identity
    endpoint: ModelEndpoint
    profile: EndpointProfile = field(default_factory=EndpointProfile)
    """Parameters that the first requests have; they change if the endpoint refuses one. The default
    has the parameters of the protocol."""
    policy: CallPolicy = field(default_factory=CallPolicy)

    @property
    def label(self) -> str:
        """Name of the model in tables and messages, such as `openai:gpt-5`."""
        return self.identity.label

    def at(self, server: ModelEndpoint | None) -> Self:
        """Return the access at a server that Parley started, or this access without one.

        Several roles and runs may share the server, so only its address replaces the plan's.
        """
        if server is None:
            return self
        address = {
            "base_url": server.base_url,
            "served_name": server.served_name,
            "replicas": server.replicas,
        }
        return replace(self, endpoint=self.endpoint.model_copy(update=address))

    def limited(self, concurrency: int) -> Self:
        """Return the access with another maximum number of requests in flight."""
        return replace(self, policy=replace(self.policy, concurrency=concurrency))

    def shared_by(self, workers: int) -> Self:
        """Return the access of one of `workers` processes, with its share of the concurrency."""
        return self.limited(max(1, self.policy.concurrency // workers))


def client_access(embedder: ModelAccess[EmbedderIdentity]) -> ModelAccess:
    """Return the access with which an embedder's client sends requests."""
    identity = ModelIdentity(
        provider=embedder.identity.provider,
        name=embedder.identity.name,
        revision=embedder.identity.revision,
    )
    return ModelAccess(identity, embedder.endpoint, policy=embedder.policy)
