"""Limits and waits of calls to one endpoint."""

from dataclasses import dataclass, field

from tasks.language.endpoints.outage import OutagePolicy


@dataclass(frozen=True)
class CallPolicy:
    """Limits and waits of calls to one endpoint. None of them can change an answer."""

    concurrency: int = 16
    """Maximum number of requests in flight in this process, 1 or more."""
    connect_s: float = 10.0
    timeout_s: float = 300.0
    """Time limit in seconds of one request, including the connection."""
    max_tries: int = 8
    """Maximum number of tries of one request.

    Tries during an outage of the endpoint do not count.
    """
    patience_s: float = 900.0
    """Seconds after the first try after which no new try starts.

    Waiting for the end of an outage does not count.
    """
    backoff_s: float = 0.5
    """Longest first wait in seconds. It doubles with each try (full jitter)."""
    max_backoff_s: float = 30.0
    max_retry_after_s: float = 120.0
    """Maximum seconds of a Retry-After. A longer one is cut to this."""
    check_served_model: bool = True
    outage: OutagePolicy = field(default_factory=OutagePolicy)
