"""Source of checkpoints in a night's configuration, and checkpoints as a scan finds them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from schemas.base import Frozen
from schemas.errors import ConfigError
from schemas.lake.records import SourceKind
from tasks.planning.request import ModelRequest
from tasks.planning.validation_errors import explain

_OWN = ("spec", "name", "revision")
"""Fields of a model request that the source sets itself."""
_SPECS: Mapping[SourceKind, str] = {
    "directory": "vllm:CHECKPOINT",
    "recordings": "recorded:CHECKPOINT",
    "repository": "vllm:ORGANISATION/NAME",
    "endpoint": "openai:MODEL",
}
"""Kind of source -> form of the model specs of the source's checkpoints.

The form determines the fields that `ask` may contain.
"""
_ON_DISK: Mapping[str, frozenset[SourceKind]] = {
    "marker": frozenset({"directory"}),
    "quiet_minutes": frozenset({"directory", "recordings"}),
}
"""Field of a source -> kinds of sources to which alone it applies."""


class CheckpointSource(Frozen):
    """Source of new checkpoints: one of `directory`, `recordings`, `repository`, `endpoint`."""

    directory: str | None = None
    """Folder in which folders with weights appear, at most four levels deep. vLLM serves them."""
    recordings: str | None = None
    """Folder in which recordings (`*.jsonl`, `*.jsonl.gz`) appear."""
    repository: str | None = None
    """Repository `ORGANISATION/NAME` on the Hugging Face hub: its branches and tags.

    vLLM serves them.
    """
    endpoint: str | None = None
    """Base URL of an OpenAI-compatible endpoint. Each model that it lists is a checkpoint.

    A model name must always stand for the same weights.
    """
    only: str = "*"
    """Pattern (`*`, `?`, `[...]`) of the folders, files, branches, tags or models to include."""
    family: str | None = None
    """Name of the checkpoints' model family. Default: derived from the folders' names."""
    marker: str | None = Field(default=None, min_length=1)
    """File that marks a folder of a `directory` as complete.

    Default: check the safetensors files and their index.
    """
    quiet_minutes: float = Field(default=10.0, ge=0)
    """Minutes without a change after which a checkpoint on disk is evaluated."""
    at_most: int | None = Field(default=None, ge=1)
    """Maximum number of checkpoints per night, newest first.

    Older ones wait for a night with fewer new ones or a backfill.
    """
    ask: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Fields of the model request of each checkpoint, except its spec, name and revision."""

    @property
    def kind(self) -> SourceKind:
        """Return which of the four kinds the source is."""
        if self.directory is not None:
            return "directory"
        if self.recordings is not None:
            return "recordings"
        return "repository" if self.repository is not None else "endpoint"

    @property
    def place(self) -> str:
        """Return the folder, repository or address."""
        return self.directory or self.recordings or self.repository or self.endpoint or ""

    def request(self, spec: str, name: str | None, revision: str, family: str) -> ModelRequest:
        """Return the model request of one checkpoint.

        Checkpoints are compared within their family, which `ask` can override.
        """
        return ModelRequest.model_validate(
            {"family": family, **self.ask, "spec": spec, "name": name, "revision": revision}
        )

    @model_validator(mode="after")
    def _require_valid_fields(self) -> Self:
        locations = [
            p for p in (self.directory, self.recordings, self.repository, self.endpoint) if p
        ]
        if len(locations) != 1:
            raise ConfigError(
                "a source of checkpoints must set exactly one of directory, recordings,"
                f" repository, endpoint; this one sets {len(locations)}"
            )
        if self.repository is not None and self.repository.count("/") != 1:
            raise ConfigError(
                f"source {self.repository!r}: a repository has the form ORGANISATION/NAME"
            )
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"source {self.endpoint!r}: an endpoint's base URL must begin with http:// or"
                " https://"
            )
        for name, kinds in _ON_DISK.items():
            if name in self.model_fields_set and self.kind not in kinds:
                raise ConfigError(
                    f"source {self.place!r}: `{name}` applies only to"
                    f" {' and '.join(sorted(kinds))}; remove it"
                )
        wrong = [name for name in _OWN if name in self.ask]
        if wrong:
            raise ConfigError(
                f"source {self.place!r}: remove {', '.join(wrong)} from `ask`; each checkpoint"
                " has its own"
            )
        try:
            self.request(_SPECS[self.kind], None, "1", "any")
        except ValidationError as error:
            raise ConfigError(f"source {self.place!r}: `ask`: {explain(error)}") from None
        except ConfigError as error:
            raise ConfigError(f"source {self.place!r}: `ask`: {error}") from None
        return self


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
