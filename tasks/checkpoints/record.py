"""Table of the checkpoints that nights evaluated, with their times."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from schemas.night.checkpoint import Checkpoint
from tasks.checkpoints.found import Found
from tasks.storage.clock import utc_now
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake

_PROVIDERS = {
    "directory": "vllm",
    "recordings": "recorded",
    "repository": "vllm",
    "endpoint": "openai",
}


def known_checkpoints(home: Home) -> Mapping[str, Checkpoint]:
    """Return the recorded checkpoints by digest, with their first name and latest path."""
    return {row.digest: row for row in Lake(home.lake).read("checkpoints", Checkpoint)}


def keep_checkpoints(home: Home, taken: Iterable[Found]) -> None:
    """Record the checkpoints that a night evaluates.

    A digest keeps its first name, family and time. Path and source are the latest.
    """
    recorded = known_checkpoints(home)
    for checkpoint in taken:
        before = recorded.get(checkpoint.digest)
        row = _row(checkpoint, before)
        if row != before:
            Lake(home.lake).write_part("checkpoints", [row], row.digest, family=row.family)


def _row(found: Found, before: Checkpoint | None) -> Checkpoint:
    return Checkpoint(
        digest=found.digest,
        family=before.family if before else found.family,
        step=before.step if before else found.step,
        model=before.model if before else f"{_PROVIDERS[found.source.kind]}:{found.name}",
        kind=found.source.kind,
        source=found.source.place,
        path=found.path,
        changed_at=datetime.fromtimestamp(found.changed_s, UTC).isoformat(timespec="seconds")
        if found.changed_s
        else "",
        found_at=before.found_at if before else utc_now(),
    )
