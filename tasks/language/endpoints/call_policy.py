"""How patiently, and how many at once, an endpoint is asked."""

from dataclasses import dataclass, field

from tasks.language.endpoints.outage import OutagePolicy


@dataclass(frozen=True)
class CallPolicy:
    """Limits and waits of calls to one endpoint. None of them can change an answer."""

    concurrency: int = 16
    """Most requests in flight at once in this process; 1 and up."""
    connect_s: float = 10.0
    timeout_s: float = 300.0
    """Limit of one request, connection included."""
    max_tries: int = 8
    """Limit of tries of one request. Tries during an outage of the endpoint do not count."""
    patience_s: float = 900.0
    """No new try begins later than this after the first one. Waiting for the end of an outage does not count."""
    backoff_s: float = 0.5
    """Longest first wait; doubles with each try (full jitter)."""
    max_backoff_s: float = 30.0
    max_retry_after_s: float = 120.0
    """A longer Retry-After is cut to this."""
    check_served_model: bool = True
    outage: OutagePolicy = field(default_factory=OutagePolicy)
