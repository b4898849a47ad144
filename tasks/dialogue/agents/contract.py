"""Interface of agents, which replace the bare chat model as the subject of a dialogue.

An agent is a value of type `Agent`.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from schemas.content_id import text_digest
from schemas.dialog import HistoryPolicy
from schemas.episode import Step
from schemas.errors import ConfigError, UnknownName
from schemas.run import AgentIdentity, Sampling
from tasks.dialogue.engine import Participant
from tasks.dialogue.tools import Workspaces
from tasks.language.chat_model import ChatModel

if TYPE_CHECKING:
    from tasks.language.embedding import TextVectors


class MakeSubject(Protocol):
    """Function (a benchmark's history policy) -> subject of a dialogue, a `Participant`."""

    def __call__(self, history: HistoryPolicy) -> Participant: ...


class TalkAnswers(Protocol):
    """Store of answers about a conversation that many dialogues share. Each request is sent once.

    Arguments of its methods: `conversation` is the name of the conversation, `key` identifies a
    request.
    """

    def get(self, conversation: str, key: str) -> str | None:
        """Return the answer with a key, or None if it is not stored."""
        ...

    def put(self, conversation: str, key: str, answer: str) -> None:
        """Store an answer for all dialogues. Raises OSError."""
        ...

    def mark_built(self, conversation: str, n_turns: int) -> None:
        """Record that all answers are stored that build the memory of the first `n_turns` turns."""
        ...

    def building(self, conversation: str) -> AbstractAsyncContextManager[None]:
        """Lock a conversation, so that nobody else sends requests about it."""
        ...


@dataclass(frozen=True)
class AgentRequest:
    """Everything that an agent gets for one dialogue: options, model, earlier steps, stores."""

    options: Mapping[str, str]
    """All options of the agent with their values."""
    model: ChatModel
    """Model under test. Each answer is cached until a step contains it, so it is paid for once."""
    sampling: Sampling
    steps: tuple[Step, ...]
    """Messages and agent's steps of an interrupted earlier attempt.

    They restore the agent's state.
    """
    embedder: "TextVectors | None" = None
    """Embedder, if the setting has `embedder_in_play` or the agent needs one."""
    talk_answers: TalkAnswers | None = None
    """Stored answers about the conversation before the dialogue. A run always sets it."""
    workspaces: Workspaces | None = None
    """Opener of workspaces. A run always sets it."""
    tree: str | None = None
    """Digest of the dialogue's files, if its problem has any."""
    environment: str = ""
    """Packages of the dialogue's files: digest of a built environment, or name from `in_image`.

    Empty for the packages of Parley's own environment.
    """


class BeginDialogue(Protocol):
    """Begins one dialogue: returns a context manager that stays open until the dialogue ends.

    Of the agent's state, only the stored answers in `AgentRequest.talk_answers` persist.
    """

    def __call__(self, request: AgentRequest) -> AbstractAsyncContextManager[MakeSubject]: ...


@dataclass(frozen=True)
class AgentOption:
    """Option that the user sets by `--agent-option name=value`."""

    name: str
    default: str
    """Default value, which ids omit. If you change it, raise the agent's version."""
    help: str
    values: tuple[str, ...] = ()
    """Allowed values. Empty if any text is allowed."""


@dataclass(frozen=True)
class Agent:
    """Agent that can be the subject of dialogues."""

    name: str
    """Name, which follows the model's name in tables: `openai:gpt-5+chain_of_thought`."""
    version: str
    """Version, part of the ids of the agent's dialogues. Raise it if the behaviour changes."""
    help: str
    begin: BeginDialogue
    options: tuple[AgentOption, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text of each prompt by name. The ids of the agent's dialogues depend on the texts."""
    calls_per_turn: int = 1
    """Maximum requests per turn, for the dry run."""
    usual_calls: int | None = None
    """Usual requests of a dialogue over all turns, for estimates.

    None to estimate by `calls_per_turn`.
    """
    calls_per_context_round: int = 0
    """Maximum requests per round of the conversation before the dialogue.

    They precede the first answer. Dialogues with the same conversation share the answers, so the
    dry run counts them once.
    """
    needs_embedder: bool = False
    """True if the agent needs vectors.

    Runs of the agent then require `--embedder`, and the ids of their dialogues include it.
    """

    check: Callable[[Mapping[str, str]], str] | None = None
    """Returns what the agent needs besides Parley, for these options. None if it needs nothing.

    Called before a run and by `parley doctor`. Raises SandboxUnavailable with the remedy if
    something is missing.
    """

    def identity(self, values: Mapping[str, str]) -> AgentIdentity:
        """Return the identity of the agent with these options, for ids.

        Raises:
            UnknownName: The agent does not have an option.
            ConfigError: The option does not allow a value.
        """
        options = {option.name: option for option in self.options}
        for name, value in values.items():
            if name not in options:
                remedy = (
                    "`parley list agents` lists them"
                    if options
                    else f"agent {self.name} has no options"
                )
                raise UnknownName("option", name, options, remedy, of=f"agent {self.name}")
            if options[name].values and value not in options[name].values:
                raise ConfigError(
                    f"agent option {name}={value!r}: use one of {', '.join(options[name].values)}"
                )
        return AgentIdentity(
            name=self.name,
            version=self.version,
            options=tuple(
                sorted(
                    (name, value)
                    for name, value in values.items()
                    if value != options[name].default
                )
            ),
            prompts=tuple(sorted((name, text_digest(text)) for name, text in self.prompts.items())),
        )

    def options_of(self, identity: AgentIdentity) -> dict[str, str]:
        """Return the values of all options of an agent, defaults included."""
        return {option.name: option.default for option in self.options} | dict(identity.options)
