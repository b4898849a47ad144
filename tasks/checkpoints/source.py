"""A source of checkpoints, as a night's configuration names it."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from schemas.base import Frozen
from schemas.errors import ConfigError
from schemas.night.checkpoint import SourceKind
from tasks.planning.request import ModelRequest, explain

_OWN = ("spec", "name", "revision")
"""Fields of a model's request that the source itself fills."""
_SPECS: Mapping[SourceKind, str] = {
    "directory": "vllm:CHECKPOINT",
    "recordings": "recorded:CHECKPOINT",
    "repository": "vllm:ORGANISATION/NAME",
    "endpoint": "openai:MODEL",
}
"""How models of each kind of source are named; which fields `ask` may hold depends on it."""
_ON_DISK: Mapping[str, frozenset[SourceKind]] = {
    "marker": frozenset({"directory"}),
    "quiet_minutes": frozenset({"directory", "recordings"}),
}
"""Fields that only sources of these kinds heed."""


class CheckpointSource(Frozen):
    """Where new checkpoints appear: exactly one of `directory`, `recordings`, `repository` and `endpoint`."""

    directory: str | None = None
    """Folder in which, at any depth up to four, folders with weights appear. vLLM serves them."""
    recordings: str | None = None
    """Folder in which recordings (`*.jsonl`, `*.jsonl.gz`) appear."""
    repository: str | None = None
    """`ORGANISATION/NAME` on the Hugging Face hub: its branches and tags. vLLM serves them."""
    endpoint: str | None = None
    """Base URL of an OpenAI-compatible endpoint: the models that it lists. A name stands for its weights for ever."""
    only: str = "*"
    """Pattern (`*`, `?`, `[...]`) of the names to take: of folders or files, branches and tags, models."""
    family: str | None = None
    """Name of the model whose states these are; without it, told from the folders' names."""
    marker: str | None = Field(default=None, min_length=1)
    """File that says that a folder of a `directory` is complete; without it, its safetensors files and their index do."""
    quiet_minutes: float = Field(default=10.0, ge=0)
    """Nothing of a checkpoint on disk changed for so long."""
    at_most: int | None = Field(default=None, ge=1)
    """Checkpoints that one night takes, newest first; older ones wait for a night with fewer new ones, or for a backfill."""
    ask: dict[str, Any] = Field(default_factory=dict[str, Any])
    """How each one is asked: the fields of a model, but for its spec and revision."""

    @property
    def kind(self) -> SourceKind:
        """Which of the four it is."""
        if self.directory is not None:
            return "directory"
        if self.recordings is not None:
            return "recordings"
        return "repository" if self.repository is not None else "endpoint"

    @property
    def place(self) -> str:
        """Folder, repository or address."""
        return self.directory or self.recordings or self.repository or self.endpoint or ""

    def request(self, spec: str, name: str | None, revision: str, family: str) -> ModelRequest:
        """How one checkpoint is asked for. It is compared with the others of its family, which `ask` may name otherwise."""
        return ModelRequest.model_validate(
            {"family": family, **self.ask, "spec": spec, "name": name, "revision": revision}
        )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [p for p in (self.directory, self.recordings, self.repository, self.endpoint) if p]
        if len(given) != 1:
            raise ConfigError(
                f"a source of checkpoints names {len(given)} places; give it one of directory, recordings, repository, endpoint"
            )
        if self.repository is not None and self.repository.count("/") != 1:
            raise ConfigError(
                f"source {self.repository!r}: a repository is named ORGANISATION/NAME"
            )
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"source {self.endpoint!r}: an endpoint's base URL begins with http:// or https://"
            )
        for name, kinds in _ON_DISK.items():
            if name in self.model_fields_set and self.kind not in kinds:
                raise ConfigError(
                    f"source {self.place!r}: `{name}` is for {' and '.join(sorted(kinds))}; leave it out"
                )
        wrong = [name for name in _OWN if name in self.ask]
        if wrong:
            raise ConfigError(
                f"source {self.place!r}: `ask` names {', '.join(wrong)}, which each checkpoint has of its own"
            )
        try:
            self.request(_SPECS[self.kind], None, "1", "any")
        except ValidationError as error:
            raise ConfigError(f"source {self.place!r}: `ask`: {explain(error)}") from None
        except ConfigError as error:
            raise ConfigError(f"source {self.place!r}: `ask`: {error}") from None
        return self
