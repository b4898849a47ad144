"""What judges are asked: does a message of the agent seek information, how natural and coherent is a dialogue, and does the
simulated user speak as a user?"""

from collections.abc import Iterable, Sequence

from pydantic import Field

from schemas.base import Frozen
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode, Step
from schemas.problem import Problem
from schemas.verdict import TestVerdict
from tasks.benchmarks.dialogue_swebench.settings import RUBRICS as NAMES
from tasks.benchmarks.setting import Options
from tasks.dialogue.agents.repository import ENDED
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.language.prompt import fill, load_prompt

_PACKAGE = "tasks.benchmarks.dialogue_swebench"
SEEKING, NATURALNESS, COHERENCE, USER_TURN = NAMES
_SHORT = (
    "User: the index page shows one entry twice.\nAgent: Which version is it, and does it happen in HTML alone?\nUser: In HTML."
)


class Seeks(Frozen):
    """Whether a message asks for information about the problem."""

    asks: bool


class Natural(Frozen):
    """A rating of how easy an agent is to talk with."""

    rating: int = Field(ge=1, le=3)


class Coherent(Frozen):
    """The two criteria."""

    is_local: bool
    is_global: bool


class UserTurn(Frozen):
    """The three criteria of a user's reply."""

    faithful: bool
    on_goal: bool
    in_environment: bool


def _asked(prompt: str, **values: str) -> tuple[Message, ...]:
    return (Message(Role.USER, fill(prompt, **values)),)


def _prompt(name: str) -> str:
    return load_prompt(_PACKAGE, name)


RUBRICS = {
    SEEKING: Rubric(
        name=SEEKING,
        version="1",
        prompt=_prompt(SEEKING),
        answer=Seeks,
        values=lambda answer: {"": float(answer.asks)},
        ranges={"": (0, 1)},
        drift=tuple(
            _asked(_prompt(SEEKING), message=text) for text in ("Does it happen in HTML alone?", "Done: I mended the cause.")
        ),
    ),
    NATURALNESS: Rubric(
        name=NATURALNESS,
        version="1",
        prompt=_prompt(NATURALNESS),
        answer=Natural,
        values=lambda answer: {"": float(answer.rating)},
        scope="dialogue",
        ranges={"": (1, 3)},
        drift=(_asked(_prompt(NATURALNESS), dialogue=_SHORT),),
    ),
    COHERENCE: Rubric(
        name=COHERENCE,
        version="1",
        prompt=_prompt(COHERENCE),
        answer=Coherent,
        values=lambda answer: {"local": float(answer.is_local), "global": float(answer.is_global)},
        dimensions=("local", "global"),
        scope="dialogue",
        ranges={"local": (0, 1), "global": (0, 1)},
        drift=(_asked(_prompt(COHERENCE), dialogue=_SHORT),),
    ),
    USER_TURN: Rubric(
        name=USER_TURN,
        version="1",
        prompt=_prompt(USER_TURN),
        answer=UserTurn,
        values=lambda answer: {name: float(value) for name, value in answer.model_dump().items()},
        dimensions=tuple(UserTurn.model_fields),
        ranges=dict.fromkeys(UserTurn.model_fields, (0, 1)),
        drift=(
            _asked(
                _prompt(USER_TURN), issue="The index shows an entry twice.", dialogue=_SHORT, reply="I ran it again: it is gone."
            ),
        ),
    ),
}


def agent_messages(episode: Episode) -> tuple[Step, ...]:
    """What the agent said to the user, but for its last words."""
    said = (step for step in episode.messages if step.role is Role.ASSISTANT and step.content.strip())
    return tuple(step for step in said if not any(name == ENDED for name, _ in step.labels))


def user_replies(episode: Episode) -> tuple[Step, ...]:
    """The simulated user's own words: all but the first message."""
    return tuple(step for step in episode.messages if step.role is Role.USER and step.turn > 1)


def told(messages: Iterable[Step]) -> str:
    """A dialogue as one text."""
    return "\n".join(f"{'User' if one.role is Role.USER else 'Agent'}: {one.content}" for one in messages if one.content.strip())


def judge_runs(
    *,
    problem: Problem,
    dialog: Dialog,
    context: tuple[Turn, ...],
    episode: Episode,
    options: Options,
    verdicts: Sequence[TestVerdict],
    rubric: str,
) -> Sequence[JudgeRun]:
    """Each message of the agent, the whole dialogue, or each reply of the simulated user."""
    text = RUBRICS[rubric].prompt
    if rubric == SEEKING:
        return [JudgeRun(step.turn, rubric, _asked(text, message=step.content)) for step in agent_messages(episode)]
    if rubric == USER_TURN:
        return [
            JudgeRun(
                reply.turn,
                rubric,
                _asked(
                    text,
                    issue=problem.prompt,
                    dialogue=told(step for step in episode.messages if step.turn < reply.turn),
                    reply=reply.content,
                ),
            )
            for reply in user_replies(episode)
        ]
    return (JudgeRun(0, rubric, _asked(text, dialogue=told(episode.messages))),) if agent_messages(episode) else ()
