"""Who speaks in a benchmark's dialogues."""

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
    """Everything that a cast may be made from. A seat knows the arguments of its constructor and nothing else."""

    setting: str
    options: Options
    """Those that affect episodes."""
    problem: Problem
    dialog: Dialog
    subject: ChatModel
    simulator: ChatModel | None
    sampling: Sampling
    programs: ProgramRunner
    embedder: "TextVectors | None" = None
    """Where the setting has `embedder_in_play`."""
    workspaces: Workspaces | None = None
    """Where an agent may work; a run always has it."""
    simulator_sampling: Sampling | None = None
    """The run's own for the simulated user; None for the setting's (`Setting.simulated`)."""
    make_seat: MakeSeat | None = None
    """The agent's, where the run has one."""

    def subject_seat(self, history: HistoryPolicy = HistoryPolicy.ON_POLICY) -> Seat:
        """Who sits in the subject's seat: the run's agent, or the bare chat model; but a script's answers go first."""
        seat = (
            self.make_seat(history)
            if self.make_seat
            else ChatSubject(self.subject, self.sampling, history)
        )
        return partly_scripted(seat, self.dialog)


class MakeCast(Protocol):
    """Seats who speaks."""

    def __call__(self, request: CastRequest) -> Cast: ...


class GoldAnswer(Protocol):
    """Says what `control:gold` answers in a round (1-based)."""

    def __call__(self, problem: Problem, turn: int) -> str: ...


class UserTexts(Protocol):
    """Tells what a scripted user says, round by round, as far as the dialog alone decides it."""

    def __call__(self, dialog: Dialog, options: Options) -> Sequence[str]:
        """A text for each message of the user that the dialog has, in their order."""
        ...


def own_texts(dialog: Dialog, options: Options) -> Sequence[str]:
    """The dialog's own messages of the user."""
    return tuple(turn.content or "" for turn in dialog.turns if turn.role is Role.USER)


def scripted_chat(request: CastRequest) -> Cast:
    """The dialog's own messages of the user, and a subject that sees the whole dialogue."""
    texts = own_texts(request.dialog, request.options)
    # One more than there are texts, so that the user ends the dialogue and not the limit.
    return Cast(
        subject=request.subject_seat(),
        counterpart=ScriptedUser(tuple(texts)),
        max_turns=len(texts) + 1,
    )


def fenced_reference(problem: Problem, turn: int) -> str:
    """The dataset's reference code in a Python block; the same in each round."""
    return f"```python\n{problem.reference_code}\n```"


@dataclass(frozen=True)
class Play:
    """Who speaks."""

    cast: MakeCast = scripted_chat
    gold_answer: GoldAnswer = fenced_reference
    user_texts: UserTexts = own_texts
    """The dry run estimates prompts by them."""
