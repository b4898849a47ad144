"""Agents: what sits in the subject's seat besides a bare chat model. An agent is a value of type `Agent`."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from schemas.content_id import text_digest
from schemas.dialog import HistoryPolicy
from schemas.episode import Step
from schemas.errors import ConfigError, UnknownName
from schemas.run import AgentIdentity, Sampling
from tasks.dialogue.seats import Seat
from tasks.dialogue.workspaces import Workspaces
from tasks.language.chat_model import ChatModel

if TYPE_CHECKING:
    from tasks.language.embedding import TextVectors


class MakeSeat(Protocol):
    """Makes the subject's seat, for a benchmark that says how much of the past it may see."""

    def __call__(self, history: HistoryPolicy) -> Seat: ...


class TalkAnswers(Protocol):
    """Answers to what an agent asks of a talk that many dialogues share: each is asked for once."""

    def get(self, conversation: str, key: str) -> str | None:
        """Return the answer under a key, if it is known."""
        ...

    def put(self, conversation: str, key: str, answer: str) -> None:
        """Keep an answer for all dialogues. Raises OSError."""
        ...

    def mark_built(self, conversation: str, n_turns: int) -> None:
        """Note that all answers for so many turns of a talk are kept."""
        ...

    def building(self, conversation: str) -> AbstractAsyncContextManager[None]:
        """Hold a talk, so that nobody else asks for its answers."""
        ...


@dataclass(frozen=True)
class AgentRequest:
    """Everything that an agent may use in one dialogue."""

    options: Mapping[str, str]
    """Every option of the agent with its value."""
    model: ChatModel
    """Its answers are kept until a step holds them, so that none is paid for twice."""
    sampling: Sampling
    steps: tuple[Step, ...]
    """All messages, and the agent's own steps, of an earlier attempt that was cut off. Its state is made anew from them."""
    embedder: "TextVectors | None" = None
    """Where the setting has `embedder_in_play`, or the agent needs one."""
    talk_answers: TalkAnswers | None = None
    """What dialogues after the same talk were answered about it; a run always has it."""
    workspaces: Workspaces | None = None
    """Where it may work; a run always has it."""
    tree: str | None = None
    """Digest of the files that the dialogue is about, where its problem has some."""
    environment: str = ""
    """Digest of the packages that belong to them, or the image that has them (`in_image`); empty for Parley's own."""


class BeginDialogue(Protocol):
    """Begins one dialogue. The context ends with it, whatever ended it; of its state only `talk_answers` outlives it."""

    def __call__(self, request: AgentRequest) -> AbstractAsyncContextManager[MakeSeat]: ...


@dataclass(frozen=True)
class AgentOption:
    """A choice the user makes by `--agent-option name=value`."""

    name: str
    default: str
    """Ids leave it out. Never change it without the agent's version."""
    help: str
    values: tuple[str, ...] = ()
    """The only values it takes; empty where any text will do."""


@dataclass(frozen=True)
class Agent:
    """An agent, as the pipeline sees it."""

    name: str
    """Follows the model's in every table: `openai:gpt-5+chain_of_thought`."""
    version: str
    """Part of its dialogues' ids: raise it when its behaviour changes."""
    help: str
    begin: BeginDialogue
    options: tuple[AgentOption, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """name -> text of every prompt that it uses; part of its dialogues' ids."""
    calls_per_turn: int = 1
    """Requests that one of its turns takes at most; the dry run counts them."""
    usual_calls: int | None = None
    """Requests of a usual dialogue, all of its turns together, for estimates; None where `calls_per_turn` says it."""
    calls_per_context_round: int = 0
    """Requests at most for a round of a talk before the dialogue, made before the first answer. Dialogues that share a talk share
    their answers, so the dry run counts them once a talk."""
    needs_embedder: bool = False
    """Whether it asks for vectors. Its runs are then refused without `--embedder`, which is part of its dialogues' ids."""

    check: Callable[[Mapping[str, str]], str] | None = None
    """Returns what the agent with these options needs beside Parley, where it is there, and raises SandboxUnavailable with the
    remedy otherwise. Called before a run and by `parley doctor`; None for an agent that needs nothing."""

    def identity(self, given: Mapping[str, str]) -> AgentIdentity:
        """The agent with these options, as ids hold it.

        Raises:
            UnknownName: an option that it does not have.
            ConfigError: a value that the option does not take.
        """
        options = {option.name: option for option in self.options}
        for name, value in given.items():
            if name not in options:
                remedy = (
                    "`parley list agents` shows them"
                    if options
                    else f"agent {self.name} has no options"
                )
                raise UnknownName("option", name, options, remedy, of=f"agent {self.name}")
            if options[name].values and value not in options[name].values:
                raise ConfigError(
                    f"agent option {name}={value!r}: takes one of {', '.join(options[name].values)}"
                )
        return AgentIdentity(
            name=self.name,
            version=self.version,
            options=tuple(
                sorted(
                    (name, value) for name, value in given.items() if value != options[name].default
                )
            ),
            prompts=tuple(sorted((name, text_digest(text)) for name, text in self.prompts.items())),
        )

    def options_of(self, identity: AgentIdentity) -> dict[str, str]:
        """Every option with its value."""
        return {option.name: option.default for option in self.options} | dict(identity.options)
