"""What a vLLM server says under `/metrics`, in Prometheus's text format. Source: vLLM's documentation of its metrics."""

import re
import urllib.request
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass

_LINE = re.compile(r"^(vllm:\w+)(?:\{[^}]*\})?\s+(\S+)")
COUNTERS = {
    "requests": "vllm:request_success_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "output_tokens": "vllm:generation_tokens_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
}
"""Our name -> vLLM's, of what only grows while the server lives."""
_RUNNING, _WAITING, _CACHE = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
)


@dataclass(frozen=True)
class ServerMetrics:
    """One look at a server."""

    counters: dict[str, int]
    """By our names, since the server's start."""
    running: int
    waiting: int
    kv_cache_share: float | None


class NoMetrics(Exception):
    """What was read is not what a vLLM server says of itself; names what is missing."""


def read_metrics(text: str) -> ServerMetrics:
    """The counts of all engines and labels together.

    Raises:
        NoMetrics: a count is missing: it must not pass for a zero.
    """
    sums: dict[str, float] = defaultdict(float)
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            with suppress(ValueError):
                sums[found.group(1)] += float(found.group(2))
    missing = [name for name in (*COUNTERS.values(), _RUNNING, _WAITING) if name not in sums]
    if missing:
        raise NoMetrics(f"/metrics lacks {', '.join(missing)}")
    counters = {ours: int(sums[theirs]) for ours, theirs in COUNTERS.items()}
    return ServerMetrics(counters, int(sums[_RUNNING]), int(sums[_WAITING]), sums.get(_CACHE))


def ask_metrics(base_url: str, timeout_s: float = 5.0) -> ServerMetrics:
    """Look at a server on loopback, given by its base URL.

    Raises:
        OSError: it does not answer.
        NoMetrics: it is no vLLM, or one that counts otherwise.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(base_url.removesuffix("/v1") + "/metrics", timeout=timeout_s) as response:
        return read_metrics(response.read().decode("utf-8", "replace"))
