"""Checkpoints: models that a night's sources hold, one after another."""

from typing import Literal

from pydantic import Field

from schemas.base import Frozen

SourceKind = Literal["directory", "recordings", "repository", "endpoint"]


class Checkpoint(Frozen):
    """One checkpoint that a night took from a source. Its digest is the `revision` of its runs."""

    digest: str
    """Of weights, tokenizer and chat template; a repository's commit; of an endpoint's address and model name."""
    family: str
    """Checkpoints of one family are successive states of one model."""
    step: int | None = Field(default=None, ge=0)
    """Step of the training, as its name or its trainer's state says; None where neither does."""
    model: str
    """Label of the model under test, as in `runs` (an agent's name is not part of it here)."""
    kind: SourceKind
    source: str
    """Folder, repository or address, as the configuration names it."""
    path: str
    """Where it was found last: folder, file, or name within the source."""
    changed_at: str
    """When it was last written, UTC, as its files or its source say; empty where they do not."""
    found_at: str
    """When a night first took it, UTC."""
