"""Parts of a batch of requests (`/v1/batches`): its record, its policy, and the lines of its files."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from schemas.run import ModelEndpoint
from tasks.language.endpoints.endpoint_key import endpoint_url
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.wire import json_bytes


class BatchTransport(Protocol):
    """Sends the requests of a desk."""

    async def call(self, path: str, body: Mapping[str, Any] | None = None) -> bytes | Fault:
        """POST a body, or GET without one."""
        ...

    async def upload(self, name: str, content: bytes) -> bytes | Fault:
        """Upload a file whose purpose is `batch`."""
        ...

    def refusal(self, status: int, text: str, body: Mapping[str, Any]) -> Fault:
        """Read the error of one request."""
        ...


@dataclass(frozen=True)
class BatchPolicy:
    """How requests are gathered and batches are asked for."""

    quiet_s: float = 2.0
    """A batch is sent when no request came for so long."""
    most_requests: int = 5_000
    """Most requests of one batch. The file of their answers must stay within the bound of one body, 64 MiB."""
    most_bytes: int = 100_000_000
    poll_s: float = 2.0
    """First wait between two questions for a batch's state; doubles up to `slowest_poll_s`."""
    slowest_poll_s: float = 60.0
    most_faults: int = 20
    """Questions in a row that fail before the batch is given up for this invocation."""
    window: str = "24h"


@dataclass
class Batch:
    """One batch, as its file has it."""

    name: str
    keys: list[str]
    url: str
    file_id: str = ""
    batch_id: str = ""
    status: str = "intended"
    n_completed: int = 0
    failed: list[str] = field(default_factory=list[str])
    """Requests that it brought no answer to; they may be sent again."""
    ended_at: float = 0.0


Lines = Mapping[str, bytes | Fault]
"""Request -> the body of its answer, or its fault."""


Refusal = Callable[[int, str], Fault]
"""(HTTP status, text of the error) -> the fault."""


def read_line(row: Mapping[str, Any], refusal: Refusal) -> bytes | Fault:
    """Return the body of an answer in a file of results, or its fault."""
    response, error = row.get("response"), row.get("error")
    if isinstance(response, dict):
        status, body = int(response.get("status_code") or 0), response.get("body")
        return (
            json_bytes(body)
            if 200 <= status < 300 and isinstance(body, dict)
            else refusal(status, json.dumps(body))
        )
    code = error.get("code", "") if isinstance(error, dict) else ""
    return Fault("transient", f"the batch brought no answer to this request ({code or error})", 408)


def why_without(state: Mapping[str, Any], refusal: Refusal) -> Fault:
    """Return the fault of a request that is in no file of its batch."""
    errors = (state.get("errors") or {}).get("data") or ()
    if state.get("status") == "failed" and errors:
        return refusal(400, json.dumps({"error": errors[0]}))
    return Fault(
        "transient",
        f"batch {state.get('id')} has {state.get('status')} without an answer to this request",
        408,
    )


def read_object(data: bytes | Fault) -> Mapping[str, Any]:
    """Return a JSON object; an empty one where there is none."""
    if isinstance(data, Fault):
        return {}
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def describe_batches(endpoints: Iterable[ModelEndpoint]) -> str:
    """Return the state of the batches under way at these endpoints, in a few words; empty where there are none."""
    places = {
        (endpoint.batches, endpoint_url(endpoint)) for endpoint in endpoints if endpoint.batches
    }
    under_way = list[Batch]()
    for folder, url in places:
        for path in Path(folder).glob("*.json"):
            try:
                batch = Batch(**json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):  # its process has just removed it
                continue
            if batch.url == url and not batch.ended_at:
                under_way.append(batch)
    if not under_way:
        return ""
    n_completed, n_requests = (
        sum(batch.n_completed for batch in under_way),
        sum(len(batch.keys) for batch in under_way),
    )
    states = ", ".join(sorted({batch.status for batch in under_way}))
    return f"{len(under_way)} batch{'es' * (len(under_way) > 1)} ({states}): {n_completed} of {n_requests} requests answered"
