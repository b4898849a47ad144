"""What a provider of models offers. A distribution adds one by an entry point of the group `parley.models`."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.sends import OnSend, ignore_send
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.storage.file_digests import FileDigests

if TYPE_CHECKING:
    from tasks.language.chat_model import ChatModel


@dataclass(frozen=True)
class ModelChoice:
    """Who answers, and where. Holds no key."""

    identity: ModelIdentity
    endpoint: ModelEndpoint


@dataclass(frozen=True)
class SpecSettings:
    """Settings given besides the spec itself."""

    text: str
    """The whole spec, for messages."""
    today: str
    """UTC date."""
    base_url: str | None = None
    key_env: str | None = None
    revision: str | None = None
    name: str | None = None
    digests: FileDigests = field(default_factory=FileDigests)
    serve: VllmSettings = field(default_factory=VllmSettings)

    def refuse_name(self) -> None:
        """Raise ConfigError where the user gave a name: this kind of model has one already."""
        if self.name is not None:
            raise ConfigError(f"model {self.text!r}: takes no name ({self.name!r}); leave it out")

    def refuse_address(self) -> None:
        """Raise ConfigError where the user gave an address or key: this kind of model takes none."""
        for name in ("base_url", "key_env"):
            if getattr(self, name):
                raise ConfigError(
                    f"model {self.text!r}: takes no {name} ({getattr(self, name)!r}); leave it out"
                )

    def refuse_other_revision(self, known: str) -> None:
        """Raise ConfigError where the user gave a revision: this kind of model tells its own."""
        if self.revision not in (None, known):
            raise ConfigError(
                f"model {self.text!r}: its revision is {known}, not {self.revision!r}; leave revision out"
            )

    @property
    def unpinned(self) -> str:
        """The stated revision, or one of today where the weights cannot be known."""
        return self.revision or f"unpinned-{self.today}"


@dataclass(frozen=True)
class OpenSettings:
    """How a model is asked. See `tasks.language.opening.open_model`."""

    concurrency: int
    gold: Callable[[str, int], str] | None = None
    check_served_model: bool = True
    timeout_s: float = 300.0
    patience_s: float = 300.0
    environ: Mapping[str, str] | None = None
    on_send: OnSend = ignore_send
    """Is told of each request that a model behind an endpoint sends."""


@dataclass(frozen=True)
class ServeRequest:
    """A model that Parley serves itself. See `tasks.language.servers.served.serving`."""

    identity: ModelIdentity
    endpoint: ModelEndpoint
    settings: VllmSettings | None
    revision: str | None
    logs: Path
    on_progress: Callable[[str], None] = lambda _: None


Read = Callable[[str, SpecSettings], ModelChoice]
"""(text behind the colon, settings) -> the model. Raises ConfigError, UnknownName, UsageError."""
Open = Callable[[ModelIdentity, ModelEndpoint, OpenSettings], "ChatModel"]
"""Open a model. Nothing is sent or started by it. Raises ConfigError, UsageError."""
Check = Callable[[ModelIdentity, ModelEndpoint, Mapping[str, str] | None], Awaitable[None]]
"""Ask before a run whether the model is there. Raises ConfigError, ModelUnavailable."""

TellFacts = Callable[
    [ModelIdentity, ModelEndpoint, Mapping[str, str] | None],
    Coroutine[Any, Any, Mapping[str, str] | None],
]
"""See `tasks.language.opening.served_facts`."""


def file_name(rest: str) -> str:
    """Return the name of a file or folder in place of its path."""
    return PurePath(rest).name if rest.startswith("/") else rest


@dataclass(frozen=True)
class ModelProvider:
    """One kind of models. Where it is used, its module alone decides what is imported."""

    forms: tuple[str, ...]
    """Forms of its specs, as messages list them."""
    read: Read
    open: Open
    knows_answers: bool = False
    """Its answers cost nothing, are known before, and depend on fields that no endpoint sees; nobody converses with it."""
    is_control: bool = False
    """It stands for no model: estimates and tables of models leave it out."""
    shown_name: Callable[[str], str] = file_name
    """(text behind the colon) -> its name in tables, where the user gives none."""
    located: Callable[[str, Path], str] | None = None
    """(text behind the colon, folder of a configuration) -> the same with a path from there; None where it holds no path."""
    serve: Callable[[ServeRequest], AbstractContextManager[ModelEndpoint]] | None = None
    """Serve a model while a block runs, on this machine's loopback; None where others serve it."""
    serve_commands: Callable[[ServeRequest], Sequence[str]] | None = None
    """Commands that `serve` would start, as a dry run shows them."""
    takes_serve_settings: bool = False
    lacks_engine: Callable[[str, VllmSettings | None], bool] = lambda _rest, _settings: False
    """(text behind the colon, settings) -> whether its revision is told by a program that is not on this machine."""
    usual_gpus: float | None = None
    """GPUs that its server holds where nobody states them; None where that is not known."""
    takes_batches: bool = False
    """Its requests may go to an endpoint's batches (`ModelEndpoint.batches`)."""
    check: Check | None = None
    facts: TellFacts | None = None
    """Ask where it is served what is told of a model there; None where nobody would know another model under its name."""
    usual_key: Callable[[str], str | None] = lambda _rest: None
    """(text behind the colon) -> name of the variable that holds the key where the user names none."""
    secret_variables: Callable[[ModelEndpoint], Sequence[str]] = lambda endpoint: tuple(
        filter(None, (endpoint.key_env,))
    )
    """Names of the variables that hold the key and the values of headers."""
