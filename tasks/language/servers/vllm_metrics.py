"""Metrics of a vLLM server from `/metrics`, in Prometheus's text format.

Source: vLLM's documentation of its metrics.
"""

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
"""Parley's name -> vLLM's name of each counter, a value that only grows while the server lives."""
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_CACHE = "vllm:kv_cache_usage_perc"
_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class ServerMetrics:
    """Metrics of a server at one moment."""

    counters: dict[str, int]
    """Counters by Parley's names, since the server's start."""
    running: int
    waiting: int
    kv_cache_share: float | None


class NoMetrics(Exception):
    """Error for a text that is not the metrics of a vLLM server.

    The error's message names the missing metrics.
    """


def read_metrics(text: str) -> ServerMetrics:
    """Return the counts, summed over engines and labels.

    Raises:
        NoMetrics: A count is missing. It must not count as zero.
    """
    sums: dict[str, float] = defaultdict(float)
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            with suppress(ValueError):
                sums[match.group(1)] += float(match.group(2))
    missing = [name for name in (*COUNTERS.values(), _RUNNING, _WAITING) if name not in sums]
    if missing:
        raise NoMetrics(f"/metrics lacks {', '.join(missing)}")
    counters = {ours: int(sums[theirs]) for ours, theirs in COUNTERS.items()}
    return ServerMetrics(counters, int(sums[_RUNNING]), int(sums[_WAITING]), sums.get(_CACHE))


def ask_metrics(base_url: str) -> ServerMetrics:
    """Return the metrics of a server on loopback.

    Args:
        base_url: Base URL of the server.

    Raises:
        OSError: The server does not answer.
        NoMetrics: It is not a vLLM server, or its counters have other names.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(base_url.removesuffix("/v1") + "/metrics", timeout=_TIMEOUT_S) as response:
        return read_metrics(response.read().decode("utf-8", "replace"))
