"""Episodes: dialogues that took place. A step is one message that was really said."""

from enum import StrEnum

from pydantic import Field

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.feedback import Feedback
from schemas.verdict import ProgramVerdict


class StopReason(StrEnum):
    FINISHED = "finished"
    """The counterpart had nothing more to say."""
    TURN_LIMIT = "turn_limit"
    SUBJECT_ERROR = "subject_error"
    """The subject cannot answer this turn (a recording without it, context length exceeded): terminal."""
    INFRA = "infra"
    """A fault of machine or service: the episode is owed again."""


class Usage(Frozen):
    """Tokens as the endpoint counted them; None where it did not say."""

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)


class Step(Frozen):
    """One message of an episode, in the order it was said."""

    turn: int = Field(ge=1)
    role: Role
    content: str
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    latency_s: float | None = Field(default=None, ge=0)
    """Seconds from request to answer, retries included; None for text that no model produced."""
    finish_reason: str | None = None
    """As the endpoint said it (`stop`, `length`, ...); None for text that no model produced."""
    served_model: str | None = None
    n_calls: int = Field(default=0, ge=0)
    """Requests sent for this message, retries included."""
    program: ProgramVerdict | None = None
    """On an answer: the report on its code, where a seat ran it within the dialogue."""
    feedback: Feedback | None = None
    """On a user's message: the feedback that it holds."""


class Episode(Frozen):
    """One dialogue that took place, of one sample of one problem."""

    episode_id: str
    run_id: str
    """The run that paid for it; other runs share it through `run_episodes`."""
    benchmark: str
    model: str
    setting: str
    dataset_version: str
    problem_id: str
    dialog_id: str
    row_digest: str
    sample: int = Field(ge=0)
    seed: int
    attempt: int = Field(ge=1)
    stop_reason: StopReason
    error: str | None = None
    """Why it stopped, where it did not finish."""
    started_at: str
    finished_at: str
    """UTC, ISO 8601."""
    steps: tuple[Step, ...]

    @property
    def is_final(self) -> bool:
        """False where the episode is owed again."""
        return self.stop_reason is not StopReason.INFRA

    def answer(self, turn: int) -> str | None:
        """The subject's answer in a round (1-based); None where it gave none."""
        for step in self.steps:
            if step.turn == turn and step.role is Role.ASSISTANT:
                return step.content
        return None
