"""The table of checkpoints: those that nights took, and when."""

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
    """Digest -> the checkpoint, as a night took it first and saw it last."""
    return {row.digest: row for row in Lake(home.lake).read("checkpoints", Checkpoint)}


def keep_checkpoints(home: Home, taken: Iterable[Found]) -> None:
    """Write down what a night takes. A digest keeps its first name, family and time; path and source are the latest."""
    known = known_checkpoints(home)
    for one in taken:
        before = known.get(one.digest)
        row = _row(one, before)
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
