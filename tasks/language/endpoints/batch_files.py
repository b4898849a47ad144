"""Types of a batch of requests (`/v1/batches`): its stored record, limits and lines of files."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.run import ModelEndpoint
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.request_parts import endpoint_url
from tasks.language.endpoints.wire import json_bytes


@dataclass(frozen=True)
class BatchPolicy:
    """Policy for collecting requests and polling batches."""

    quiet_s: float = 2.0
    """Seconds without a new request after which a batch is sent."""
    most_requests: int = 5_000
    """Maximum requests per batch.

    The file of their answers must stay below 64 MiB, the limit of one body.
    """
    most_bytes: int = 100_000_000
    poll_s: float = 2.0
    """First pause in seconds between two polls of a batch's state.

    It doubles up to `slowest_poll_s`.
    """
    slowest_poll_s: float = 60.0
    most_faults: int = 20
    """Number of consecutive failed polls after which this invocation gives the batch up."""
    window: str = "24h"


@dataclass
class Batch:
    """Record of one batch, stored in a file while the batch is in flight."""

    name: str
    keys: list[str]
    url: str
    file_id: str = ""
    batch_id: str = ""
    status: str = "intended"
    n_completed: int = 0
    failed: list[str] = field(default_factory=list[str])
    """Keys of requests without an answer from the batch. These requests may be sent again."""
    ended_at: float = 0.0


Lines = Mapping[str, bytes | Fault]
"""Key of a request -> body of its answer, or its fault."""


Refusal = Callable[[int, str], Fault]
"""Function (HTTP status, text of the error) -> fault."""


def read_line(row: Mapping[str, Any], refusal: Refusal) -> bytes | Fault:
    """Return the body of the answer in one line of a results file, or the line's fault."""
    response, error = row.get("response"), row.get("error")
    if isinstance(response, dict):
        status, body = int(response.get("status_code") or 0), response.get("body")
        return (
            json_bytes(body)
            if 200 <= status < 300 and isinstance(body, dict)
            else refusal(status, json.dumps(body))
        )
    code = error.get("code", "") if isinstance(error, dict) else ""
    return Fault(
        "transient", f"the batch returned no answer to this request ({code or error})", 408
    )


def missing_answer_fault(state: Mapping[str, Any], refusal: Refusal) -> Fault:
    """Return the fault of a request that is in no file of its batch."""
    errors = (state.get("errors") or {}).get("data") or ()
    if state.get("status") == "failed" and errors:
        return refusal(400, json.dumps({"error": errors[0]}))
    return Fault(
        "transient",
        f"batch {state.get('id')} ended as {state.get('status')} without an answer to this request",
        408,
    )


def read_object(data: bytes | Fault) -> Mapping[str, Any]:
    """Return a JSON object, or {} without one."""
    if isinstance(data, Fault):
        return {}
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def describe_batches(endpoints: Iterable[ModelEndpoint]) -> str:
    """Return the state of the running batches at these endpoints in a few words, or ""."""
    endpoints_of_batches = {
        (endpoint.batches, endpoint_url(endpoint)) for endpoint in endpoints if endpoint.batches
    }
    running = list[Batch]()
    for folder, url in endpoints_of_batches:
        for path in Path(folder).glob("*.json"):
            try:
                batch = Batch(**json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):  # Its process has just removed it.
                continue
            if batch.url == url and not batch.ended_at:
                running.append(batch)
    if not running:
        return ""
    n_completed, n_requests = (
        sum(batch.n_completed for batch in running),
        sum(len(batch.keys) for batch in running),
    )
    states = ", ".join(sorted({batch.status for batch in running}))
    return (
        f"{len(running)} batch{'es' * (len(running) > 1)} ({states}):"
        f" {n_completed} of {n_requests} requests answered"
    )
