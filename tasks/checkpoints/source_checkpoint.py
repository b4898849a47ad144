"""Checkpoint in a source, as a scan finds it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.checkpoints.source import CheckpointSource

_STEP = re.compile(
    r"(?:^|[-_. ])(?:checkpoint|ckpt|global[-_]?step|step|iter|iteration|update)s?[-_=]?(\d+)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SourceCheckpoint:
    """Checkpoint that a scan found in a source. It may be incomplete."""

    source: CheckpointSource
    spec: str
    """Model spec, in the form of `--model`."""
    path: str
    family: str
    name: str
    """Model name that tables show after the provider's name."""
    step: int | None
    changed_s: float
    """Time of the last change, seconds since 1970. 0 if unknown."""
    digest: str = ""
    """Digest of the weights. Empty if the checkpoint is incomplete."""
    lacks: str = ""
    """Reason why the checkpoint is incomplete. Empty if it is complete."""
    copy_of: str = ""
    """Path of the older checkpoint with the same weights, or ""."""

    @property
    def is_due(self) -> bool:
        """Return True if the checkpoint is complete and is no copy of an older one."""
        return not self.lacks and not self.copy_of

    @property
    def names_weights(self) -> bool:
        """Return True if Parley must choose the model's name in tables.

        Repositories and endpoints already name their models.
        """
        return self.source.kind in ("directory", "recordings")


@dataclass(frozen=True)
class Unread:
    """Source that could not be read, with the reason. Other sources are still read."""

    source: CheckpointSource
    reason: str


def step_of(name: str) -> int | None:
    """Return the training step at the end of a name, or None.

    Examples: `checkpoint-1000`, `global_step300`.
    """
    match = _STEP.search(name)
    return int(match.group(1)) if match else None


def newest_first(checkpoints: Iterable[SourceCheckpoint]) -> list[SourceCheckpoint]:
    """Sort by time, then by step, newest first."""
    return sorted(
        checkpoints,
        key=lambda checkpoint: (checkpoint.changed_s, checkpoint.step or 0, checkpoint.name),
        reverse=True,
    )
