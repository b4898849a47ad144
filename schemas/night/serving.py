"""What vLLM's servers say of their work while a night asks them."""

from pydantic import Field

from schemas.base import Frozen


class Serving(Frozen):
    """One replica in a stretch of time in which it had work: what `/metrics` counted between two looks, and showed at the last.

    A server works for all runs of a night that ask its model, so a row names the night and no run.
    """

    night_id: str
    model: str
    """Label of the model's identity, without an agent."""
    served_name: str
    """The name that the server gives it: the digest of its weights."""
    replica: int = Field(ge=0)
    from_at: str
    to_at: str
    seconds: float = Field(gt=0)
    requests: int = Field(ge=0)
    """Requests that ended."""
    prompt_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    prefix_cache_queries: int = Field(ge=0)
    """Tokens of prompts that were looked for in the cache."""
    prefix_cache_hits: int = Field(ge=0)
    """Those of them that were found, and so were not computed again."""
    preemptions: int = Field(ge=0)
    """Requests that were put back to wait, for want of cache."""
    running: int = Field(ge=0)
    """Requests being answered at the end of the stretch."""
    waiting: int = Field(ge=0)
    """Requests in the queue at the end of the stretch."""
    kv_cache_share: float | None = Field(default=None, ge=0)
    """Share of the cache in use at the end of the stretch."""
    is_restarted: bool = False
    """The server was started again within the stretch: what it counted before that since the last look is lost."""
