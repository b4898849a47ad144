"""Participants of a benchmark's dialogues."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.problem import Problem
from schemas.run import Sampling
from tasks.benchmarks.setting import Options
from tasks.dialogue.agents.contract import MakeSeat
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.programs import ProgramRunner
from tasks.dialogue.scripted_answers import partly_scripted
from tasks.dialogue.scripted_user import ScriptedUser
from tasks.dialogue.seats import Cast, Seat
from tasks.dialogue.workspaces import Workspaces
from tasks.language.chat_model import ChatModel

if TYPE_CHECKING:
    from tasks.language.embedding import TextVectors


@dataclass(frozen=True)
class CastRequest:
    """Inputs for the cast of a dialogue.

    A participant receives only the arguments of its constructor.
    """

    setting: str
    options: Options
    """Options that affect episodes."""
    problem: Problem
    dialog: Dialog
    subject: ChatModel
    simulator: ChatModel | None
    sampling: Sampling
    programs: ProgramRunner
    embedder: "TextVectors | None" = None
    """Embedder, if the setting has `embedder_in_play`."""
    workspaces: Workspaces | None = None
    """Workspaces for agents. Always set in a run."""
    simulator_sampling: Sampling | None = None
    """Sampling of the simulated user set by the run. None means `Setting.simulated`."""
    make_seat: MakeSeat | None = None
    """Constructor of the run's agent. None without an agent."""

    def subject_seat(self, history: HistoryPolicy = HistoryPolicy.ON_POLICY) -> Seat:
        """Return the run's agent or chat model. Scripted answers of the dialog take precedence."""
        seat = (
            self.make_seat(history)
            if self.make_seat
            else ChatSubject(self.subject, self.sampling, history)
        )
        return partly_scripted(seat, self.dialog)


class MakeCast(Protocol):
    """Function that returns the participants of a dialogue."""

    def __call__(self, request: CastRequest) -> Cast: ...


class GoldAnswer(Protocol):
    """Function that returns the answer of `control:gold` in a round (1-based)."""

    def __call__(self, problem: Problem, turn: int) -> str: ...


class UserTexts(Protocol):
    """Function that returns the texts of a scripted user, as far as the dialog determines them."""

    def __call__(self, dialog: Dialog, options: Options) -> Sequence[str]:
        """Return one text for each user message of the dialog, in order."""
        ...


def own_texts(dialog: Dialog, options: Options) -> Sequence[str]:
    """Return the texts of the dialog's user messages."""
    return tuple(turn.content or "" for turn in dialog.turns if turn.role is Role.USER)


def scripted_chat(request: CastRequest) -> Cast:
    """Return a cast of the dialog's scripted user and a subject that sees the whole dialogue."""
    texts = own_texts(request.dialog, request.options)
    # One more turn than texts, so that the user ends the dialogue and not the limit.
    return Cast(
        subject=request.subject_seat(),
        counterpart=ScriptedUser(tuple(texts)),
        max_turns=len(texts) + 1,
    )


def fenced_reference(problem: Problem, turn: int) -> str:
    """Return the reference code in a Python block, equal in each round."""
    return f"```python\n{problem.reference_code}\n```"


@dataclass(frozen=True)
class Play:
    """Participants of the dialogues."""

    cast: MakeCast = scripted_chat
    gold_answer: GoldAnswer = fenced_reference
    user_texts: UserTexts = own_texts
    """Texts of the user, from which the dry run estimates prompt lengths."""
