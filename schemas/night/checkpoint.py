"""Checkpoints: the successive models in a night's sources."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen

SourceKind = Literal["directory", "recordings", "repository", "endpoint"]


class Checkpoint(Frozen):
    """Checkpoint that a night took from a source. Its digest is the `revision` of its runs."""

    digest: str
    """Digest of the checkpoint's content. For a directory: weights, tokenizer and chat template.
    For a repository: its commit. For an endpoint: its address and model name."""
    family: str
    """Name that the successive checkpoints of one model share."""
    step: int | None = Field(default=None, ge=0)
    """Training step, from the checkpoint's name or its trainer's state; None if neither contains
    it."""
    model: str
    """Label of the model under test, as in `runs`, but without an agent's name."""
    kind: SourceKind
    source: str
    """Folder, repository or address, as in the configuration."""
    path: str
    """Latest place of the checkpoint: folder, file, or name within the source."""
    changed_at: str
    """Time of the last change, UTC, from its files or its source; empty if unknown."""
    found_at: str
    """Time when a night first took the checkpoint, UTC."""
