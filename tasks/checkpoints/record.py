"""Table of the checkpoints that nights evaluated, with their times."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from schemas.night.checkpoint import Checkpoint
from tasks.checkpoints.source_checkpoint import SourceCheckpoint
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


def record_checkpoints(home: Home, checkpoints: Iterable[SourceCheckpoint]) -> None:
    """Record the checkpoints that a night evaluates.

    A digest keeps its first name, family and time. Path and source are the latest.
    """
    recorded = known_checkpoints(home)
    for checkpoint in checkpoints:
        before = recorded.get(checkpoint.digest)
        row = _row(checkpoint, before)
        if row != before:
            Lake(home.lake).write_part("checkpoints", [row], row.digest, family=row.family)


def _row(checkpoint: SourceCheckpoint, before: Checkpoint | None) -> Checkpoint:
    return Checkpoint(
        digest=checkpoint.digest,
        family=before.family if before else checkpoint.family,
        step=before.step if before else checkpoint.step,
        model=before.model if before else f"{_PROVIDERS[checkpoint.source.kind]}:{checkpoint.name}",
        kind=checkpoint.source.kind,
        source=checkpoint.source.place,
        path=checkpoint.path,
        changed_at=datetime.fromtimestamp(checkpoint.changed_s, UTC).isoformat(timespec="seconds")
        if checkpoint.changed_s
        else "",
        found_at=before.found_at if before else utc_now(),
    )
