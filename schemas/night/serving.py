"""Measurements and served hours of Parley's own model servers."""

from pydantic import Field

from schemas.base import Frozen


class Serving(Frozen):
    """Work of one replica during one interval, from two readings of its `/metrics`.

    Counters are differences between the readings. `running`, `waiting` and `kv_cache_share` are
    values of the second one. A server works for all runs of a night that use its model, so a row
    contains the night but no run.
    """

    night_id: str
    model: str
    """Label of the model, without an agent."""
    served_name: str
    """Name under which the server serves the model: the digest of its weights."""
    replica: int = Field(ge=0)
    from_at: str
    to_at: str
    seconds: float = Field(gt=0)
    requests: int = Field(ge=0)
    """Number of requests that finished."""
    prompt_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    prefix_cache_queries: int = Field(ge=0)
    """Number of prompt tokens that were looked up in the prefix cache."""
    prefix_cache_hits: int = Field(ge=0)
    """Number of prompt tokens found in the prefix cache, and therefore not computed again."""
    preemptions: int = Field(ge=0)
    """Number of requests that went back to the queue because the KV cache was full."""
    running: int = Field(ge=0)
    """Number of requests in progress at the end of the interval."""
    waiting: int = Field(ge=0)
    """Number of requests in the queue at the end of the interval."""
    kv_cache_share: float | None = Field(default=None, ge=0)
    """Share of the KV cache in use at the end of the interval (0 to 1)."""
    is_restarted: bool = False
    """True if the server was restarted within the interval. Its counts between the last reading and
    the restart are lost."""


class ServedHours(Frozen):
    """Time that a model server of Parley's was ready for one role of a run, in one night."""

    night_id: str
    run_id: str
    benchmark: str
    model: str
    role: str
    """Role of the model: subject, simulator or judge."""
    role_model: str
    hours: float | None = Field(default=None, ge=0)
    """Hours from the server's start to the end of its use. Runs and roles that share a server share
    its time. None if the night was killed."""
    gpus: float | None = Field(default=None, ge=0)
    """Number of GPUs that the server uses; None if unknown."""
