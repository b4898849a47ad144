"""Episodes: dialogues that took place. A step is one message that was really said."""

from enum import StrEnum

from pydantic import Field

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.feedback import Feedback
from schemas.verdict import ProgramVerdict


class StopReason(StrEnum):
    """Reasons why an episode ended. All but `infra` are final: the episode is not owed again."""

    FINISHED = "finished"
    """The counterpart had nothing more to say."""
    TURN_LIMIT = "turn_limit"
    SUBJECT_ERROR = "subject_error"
    """The subject cannot answer this turn (a recording without it, context length exceeded): terminal."""
    REFUSED = "refused"
    """The endpoint or the model refused to answer this prompt (moderation, a content filter): terminal."""
    INFRA = "infra"
    """A fault of machine or service: the episode is owed again."""
    NOT_ASKED = "not_asked"
    """What its programs run in is not there, so nothing was asked. Where it is, the dialogue is another episode."""
    ENVIRONMENT_MISSING = "environment_missing"
    """As `not_asked`: the project is there, and its own tests fail, as where packages are missing."""


class StepKind(StrEnum):
    """A seat may take many steps before its turn ends with a message."""

    MESSAGE = "message"
    """Ends the seat's turn; the other seat sees it."""
    TOOL_CALL = "tool_call"
    """Asks for one or several tools (`Step.calls`); its content is what the model said beside them."""
    OBSERVATION = "observation"
    """What came of one call (`Step.call_id`)."""
    ARTIFACT = "artifact"
    """A result that the other seat does not see: a patch, reasoning, a note of the seat's own."""


class ToolCall(Frozen):
    """One call of a tool."""

    call_id: str
    name: str
    arguments: str
    """JSON text, as the model wrote it; it may not be valid."""


class Usage(Frozen):
    """Tokens as the endpoint counted them; None where it did not say."""

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)


SCRIPTED = ("said_by", "script")
"""Label of an answer that the dialog itself gives: the model under test was not asked for it."""
TOO_LONG = "the conversation is longer than its context"
"""Ends the error of an episode that stopped because of it."""


class Step(Frozen):
    """One message, tool call, observation or artifact of an episode, in the order they came."""

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
    kind: StepKind = StepKind.MESSAGE
    calls: tuple[ToolCall, ...] = ()
    """On a tool call."""
    call_id: str | None = None
    """On an observation: the call that it answers."""
    tree: str | None = None
    """Digest of the workspace's tree after this step; None where the step left it as it was."""
    programs: tuple[ProgramVerdict, ...] = ()
    """Further programs that were run on the answer within the dialogue."""
    labels: tuple[tuple[str, str], ...] = ()
    """Facts that a seat keeps with the step, by name."""
    reasoning: str | None = None
    """The model's thoughts before an answer, which nobody else in the dialogue sees."""
    reasoning_tokens: int | None = Field(default=None, ge=0)
    """Part of `output_tokens`; None where the endpoint did not count them."""
    adapted: tuple[str, ...] = ()
    """How the request differs from what was asked for, since the endpoint refused a part of it: `without seed`."""

    @property
    def is_scripted(self) -> bool:
        """Whether it is an answer that the dialog itself gives."""
        return SCRIPTED in self.labels


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
    def messages(self) -> tuple[Step, ...]:
        """What was said: one message a turn and role, without the steps that led to it."""
        return tuple(step for step in self.steps if step.kind is StepKind.MESSAGE)

    @property
    def is_final(self) -> bool:
        """False where the episode is owed again."""
        return self.stop_reason is not StopReason.INFRA

    @property
    def is_too_long(self) -> bool:
        """Whether it ended because the conversation was longer than the model's context."""
        return self.stop_reason is StopReason.SUBJECT_ERROR and (self.error or "").endswith(
            TOO_LONG
        )

    def answer(self, turn: int) -> str | None:
        """The subject's answer in a round (1-based); None where it gave none."""
        said = (
            step
            for step in self.steps
            if step.kind is StepKind.MESSAGE and step.role is Role.ASSISTANT
        )
        return next((step.content for step in said if step.turn == turn), None)
