"""Checkpoints as a source holds them now."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.checkpoints.source import CheckpointSource

_STEP = re.compile(
    r"(?:^|[-_. ])(?:checkpoint|ckpt|global[-_]?step|step|iter|iteration|update)s?[-_=]?(\d+)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Found:
    """One checkpoint, complete or not."""

    source: CheckpointSource
    spec: str
    """As `--model` takes it."""
    path: str
    family: str
    name: str
    """Its name in tables, after the provider."""
    step: int | None
    changed_s: float
    """When it was last written, seconds since 1970; 0 where nothing says so."""
    digest: str = ""
    """Empty where it is not complete."""
    lacks: str = ""
    """What it waits for; empty where it is complete."""
    copy_of: str = ""
    """Path of the older checkpoint that is the same model."""

    @property
    def is_due(self) -> bool:
        """Whether it can be evaluated, and no other one stands for it."""
        return not self.lacks and not self.copy_of

    @property
    def names_weights(self) -> bool:
        """Whether its model has a name of its own in tables; a repository's and an endpoint's have theirs already."""
        return self.source.kind in ("directory", "recordings")


@dataclass(frozen=True)
class Unread:
    """A source that could not be read, and why. The others are."""

    source: CheckpointSource
    reason: str


def step_of(name: str) -> int | None:
    """Step of the training that a name ends with: `checkpoint-1000`, `global_step300`. None where it ends otherwise."""
    found = _STEP.search(name)
    return int(found.group(1)) if found else None


def newest_first(found: Iterable[Found]) -> list[Found]:
    """By time, of equal times by step."""
    return sorted(found, key=lambda one: (one.changed_s, one.step or 0, one.name), reverse=True)
