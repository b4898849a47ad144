"""Interface of a provider of models.

A package adds one by the entry point group `parley.models`.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from schemas.errors import ConfigError
from schemas.run import ModelEndpoint
from tasks.language.access import ModelAccess
from tasks.language.chat_model import OnSend, ignore_send
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.storage.home_records import FileDigests

if TYPE_CHECKING:
    from tasks.language.chat_model import ChatModel


@dataclass(frozen=True)
class SpecSettings:
    """Settings of a model that a request states beside the spec, such as address or revision."""

    text: str
    """Complete model spec, for messages."""
    today: str
    """Present date in UTC, used in the revision `unpinned-<date>`."""
    key_env: str | None = None
    revision: str | None = None
    name: str | None = None
    digests: FileDigests = field(default_factory=FileDigests)
    serve: VllmSettings = field(default_factory=VllmSettings)

    def refuse_name(self) -> None:
        """Raise ConfigError if the user set a name: this kind of model has one already."""
        if self.name is not None:
            raise ConfigError(
                f"model {self.text!r}: does not accept a name ({self.name!r}); remove it"
            )

    def refuse_key(self) -> None:
        """Raise ConfigError if the user set a key: this kind of model accepts none."""
        if self.key_env:
            raise ConfigError(
                f"model {self.text!r}: does not accept key_env ({self.key_env!r}); remove it"
            )

    def refuse_other_revision(self, revision: str) -> None:
        """Raise ConfigError if the user set a revision: this kind of model determines its own."""
        if self.revision not in (None, revision):
            raise ConfigError(
                f"model {self.text!r}: its revision is {revision}, not {self.revision!r}; remove"
                " the revision"
            )

    @property
    def unpinned(self) -> str:
        """Return the stated revision, or one with today's date if the weights are unknown."""
        return self.revision or f"unpinned-{self.today}"


@dataclass(frozen=True)
class OpenSettings:
    """Settings of an open model. See `tasks.language.opening.open_model`."""

    gold: Callable[[str, int], str | None] | None = None
    environ: Mapping[str, str] | None = None
    on_send: OnSend = ignore_send
    """Callback for each request that a model at an endpoint sends."""


@dataclass(frozen=True)
class ServeRequest:
    """Model that Parley serves itself."""

    access: ModelAccess
    """Model to serve. Its endpoint has no address, but the model's path."""
    settings: VllmSettings | None
    revision: str | None
    """Revision of a repository, as the user states it."""
    logs: Path
    """Folder of the servers' logs."""
    on_progress: Callable[[str], None] = lambda _: None
    """Called with the phase of a starting server, and with an empty text at the end."""


Read = Callable[[str, SpecSettings], ModelAccess]
"""Function (spec's text after the colon, settings) -> access to the model, with the default policy.

Raises ConfigError, UnknownName, UsageError.
"""
Open = Callable[[ModelAccess, OpenSettings], "ChatModel"]
"""Opens a model. Sends and starts nothing. Raises ConfigError, UsageError."""
Check = Callable[[ModelAccess, Mapping[str, str] | None], Coroutine[Any, Any, None]]
"""Checks before a run that the model is available. Raises ConfigError, ModelUnavailable."""

TellFacts = Callable[
    [ModelAccess, Mapping[str, str] | None],
    Coroutine[Any, Any, Mapping[str, str] | None],
]
"""Requests the facts that a model's server reports. See `tasks.language.opening.served_facts`."""


def file_name(rest: str) -> str:
    """Return the file or folder name of an absolute path, and other texts unchanged."""
    return PurePath(rest).name if rest.startswith("/") else rest


@dataclass(frozen=True)
class ModelProvider:
    """Provider of one kind of models. Each provider imports the libraries that it needs itself."""

    forms: tuple[str, ...]
    """Forms of the provider's specs, for messages."""
    read: Read
    open: Open
    knows_answers: bool = False
    """True if answers are known in advance and free, and depend on fields that no endpoint sees."""
    is_control: bool = False
    """True if the provider's models are controls. Estimates and tables of models omit them."""
    shown_name: Callable[[str], str] = file_name
    """Returns a model's default name in tables from its spec's text after the colon."""
    located: Callable[[str, Path], str] | None = None
    """Returns a spec's text after the colon, its path resolved against a configuration's folder.

    None if the provider's specs contain no path.
    """
    serve: Callable[[ServeRequest], AbstractContextManager[ModelEndpoint]] | None = None
    """Serves a model on this machine's loopback during a block. None if others serve it."""
    serve_commands: Callable[[ServeRequest], Sequence[str]] | None = None
    """Returns the commands that `serve` would start, for dry runs."""
    takes_serve_settings: bool = False
    lacks_engine: Callable[[str, VllmSettings | None], bool] = lambda _rest, _settings: False
    """Returns True if a model's revision is the version of an engine that is not installed here."""
    usual_gpus: float | None = None
    """Default number of GPUs of the model's server. None if unknown."""
    takes_batches: bool = False
    """True if requests can use an endpoint's batches (`ModelEndpoint.batches`)."""
    check: Check | None = None
    facts: TellFacts | None = None
    """Returns the facts that the model's server reports. None if a name always means one model."""
    usual_key: Callable[[str], str | None] = lambda _rest: None
    """Returns the key's default environment variable from a spec's text after the colon."""
    secret_variables: Callable[[ModelEndpoint], Sequence[str]] = lambda endpoint: tuple(
        filter(None, (endpoint.key_env,))
    )
    """Returns the names of the variables with the key and the values of headers."""
