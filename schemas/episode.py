"""Episodes: dialogues that took place, the feedback on code in them, and the scores of their turns.

A step is one message, tool call, observation or artifact. The settings of feedback are
ConvCodeWorld's nine (section 2), and none at all. A score is one metric's value on one turn. A
missing value is None with a reason, never 0.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Self, TypeVar

from pydantic import Field, model_validator

from schemas.base import EpisodeRow, Frozen
from schemas.dialog import Role
from schemas.grouping import grouped
from schemas.verdict import ProgramVerdict


class ExecutionFeedback(StrEnum):
    """Tests whose output the subject sees: none, those of partial coverage, or all."""

    NONE = "none"
    PARTIAL = "f_e"
    FULL = "f_e*"


class VerbalFeedback(StrEnum):
    """Comment on the code.

    The kinds: none; by a user without the reference code; by a user with it; the reference code
    itself.
    """

    NONE = "none"
    NOVICE = "f_v"
    EXPERT = "f_v*"
    GROUND_TRUTH = "ground_truth"
    """The reference code is shown, without a user's comment (ConvCodeWorld Table 7)."""


class Feedback(Frozen):
    """Feedback on one piece of code, by kind.

    A field is None if the setting, or the feedback's author, gives none of that kind.
    """

    compilation: str | None = None
    execution: str | None = None
    verbal: str | None = None


class FeedbackSetting(Frozen):
    """Omega = <f_c, [none | f_e | f_e*], [none | f_v | f_v*]>.

    Without compilation feedback there is no other feedback.
    """

    compilation: bool = True
    execution: ExecutionFeedback = ExecutionFeedback.NONE
    verbal: VerbalFeedback = VerbalFeedback.NONE

    @property
    def name(self) -> str:
        """Name in the paper's notation, such as `f_c,f_e,f_v*`; `none` for no feedback."""
        if not self.compilation:
            return "none"
        parts = ["f_c", *(p.value for p in (self.execution, self.verbal) if p.value != "none")]
        return ",".join(parts)


NO_FEEDBACK = FeedbackSetting(compilation=False)
FEEDBACK_SETTINGS: tuple[FeedbackSetting, ...] = tuple(
    FeedbackSetting(execution=execution, verbal=verbal)
    for execution in ExecutionFeedback
    for verbal in VerbalFeedback
    if verbal is not VerbalFeedback.GROUND_TRUTH
)
GROUND_TRUTH = FeedbackSetting(verbal=VerbalFeedback.GROUND_TRUTH)
"""Upper bound of verbal feedback. It is not one of the paper's nine settings."""


class StopReason(StrEnum):
    """Reasons why an episode ended.

    All but `infra` are final: the episode does not become pending again.
    """

    FINISHED = "finished"
    """The simulated user or the script had no further message."""
    TURN_LIMIT = "turn_limit"
    SUBJECT_ERROR = "subject_error"
    """The subject cannot answer this turn: a recording lacks it, or the context is too long.
    Final."""
    REFUSED = "refused"
    """The endpoint or the model refused to answer this prompt (moderation, a content filter).
    Final."""
    INFRA = "infra"
    """A machine or service failed. The episode is pending again."""
    NOT_ASKED = "not_asked"
    """The files that the programs run in, or the reference that `control:gold` answers with, are
    missing, so nothing was asked. Once they exist, the dialogue is another episode."""
    ENVIRONMENT_MISSING = "environment_missing"
    """The files that the programs run in exist, but their own tests fail, for example because
    packages are missing. Nothing was asked."""


class StepKind(StrEnum):
    """Kinds of steps. A participant may take many steps before a message ends its turn."""

    MESSAGE = "message"
    """Message that ends the participant's turn. The other participant sees it."""
    TOOL_CALL = "tool_call"
    """Request for one or several tools (`Step.calls`). Its content is the text that the model wrote
    beside them."""
    OBSERVATION = "observation"
    """Result of one tool call (`Step.call_id`)."""
    ARTIFACT = "artifact"
    """Result that the other participant does not see: a patch, reasoning, or a note."""


class ToolCall(Frozen):
    """One call of a tool."""

    call_id: str
    name: str
    arguments: str
    """JSON text as the model wrote it. It may be invalid."""


class Usage(Frozen):
    """Numbers of tokens as the endpoint counted them. A field is None if it did not count them."""

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)


SCRIPTED = ("said_by", "script")
"""Label of an answer that the dialog scripts. The model under test was not asked for it."""
TOO_LONG = "the conversation is longer than its context"
"""End of the error text of an episode that stopped for this reason."""


class Step(Frozen):
    """One message, tool call, observation or artifact of an episode. Steps are in order of time."""

    turn: int = Field(ge=1)
    role: Role
    content: str
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    latency_s: float | None = Field(default=None, ge=0)
    """Seconds from request to answer, retries included; None for text that no model produced."""
    finish_reason: str | None = None
    """Reason as the endpoint reports it (`stop`, `length`, ...); None for text that no model
    produced."""
    served_model: str | None = None
    n_calls: int = Field(default=0, ge=0)
    """Number of requests sent for this message, retries included."""
    program: ProgramVerdict | None = None
    """On an answer: verdict on its code, if a participant ran it during the dialogue."""
    feedback: Feedback | None = None
    """On a user's message: the feedback that it contains."""
    kind: StepKind = StepKind.MESSAGE
    calls: tuple[ToolCall, ...] = ()
    """Calls that a step of the kind `tool_call` requests; empty for other steps."""
    call_id: str | None = None
    """Id of the tool call whose result the step is; None unless the step is an observation."""
    tree: str | None = None
    """Digest of the workspace's tree after this step; None if the step did not change the tree."""
    programs: tuple[ProgramVerdict, ...] = ()
    """Verdicts on further programs that were run on the answer during the dialogue."""
    labels: tuple[tuple[str, str], ...] = ()
    """Facts, by name, that a participant stores with the step."""
    reasoning: str | None = None
    """Model's thoughts before an answer. No other participant of the dialogue sees them."""
    reasoning_tokens: int | None = Field(default=None, ge=0)
    """Number of reasoning tokens, a part of `output_tokens`; None if the endpoint did not count
    them."""
    adapted: tuple[str, ...] = ()
    """Changes to the request, made because the endpoint refused a part of it, such as `without
    seed`."""

    @property
    def is_scripted(self) -> bool:
        """True if the dialog scripts this answer."""
        return SCRIPTED in self.labels


class Episode(Frozen):
    """One dialogue that took place, for one sample of one problem."""

    episode_id: str
    run_id: str
    """Run that paid for the episode. Other runs share the episode through `run_episodes`."""
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
    """Reason why the episode stopped, if it did not finish."""
    started_at: str
    """Start of the episode: UTC, ISO 8601."""
    finished_at: str
    """End of the episode: UTC, ISO 8601."""
    steps: tuple[Step, ...]

    @property
    def messages(self) -> tuple[Step, ...]:
        """Steps that are messages, one for each turn and role.

        Tool calls, observations and artifacts are left out.
        """
        return tuple(step for step in self.steps if step.kind is StepKind.MESSAGE)

    @property
    def is_final(self) -> bool:
        """False if the episode is pending again."""
        return self.stop_reason is not StopReason.INFRA

    @property
    def is_too_long(self) -> bool:
        """True if the episode ended because the conversation exceeded the model's context."""
        return self.stop_reason is StopReason.SUBJECT_ERROR and (self.error or "").endswith(
            TOO_LONG
        )

    def answer(self, turn: int) -> str | None:
        """Return the subject's answer in a round (1-based); None if it gave none."""
        messages = (
            step
            for step in self.steps
            if step.kind is StepKind.MESSAGE and step.role is Role.ASSISTANT
        )
        return next((step.content for step in messages if step.turn == turn), None)


class UnscoredReason(StrEnum):
    """Reasons why a score has no value.

    `is_fault` separates faults from definitions and gaps in the data.
    """

    INFRA = "infra"
    """A machine or service failed: the value exists, but could not be measured."""
    NO_ANSWER = "no_answer"
    """The episode has no answer for this turn."""
    NOTHING_TO_FORGET = "nothing_to_forget"
    """No earlier instruction had passed, so the ratio has no denominator."""
    UNDEFINED = "undefined"
    """The metric is not defined here."""
    SOURCE_MISSING = "source_missing"
    """The dataset lacks the value that the metric compares with, or a tree of files that the tests
    need."""
    ENVIRONMENT_MISSING = "environment_missing"
    """The tree's own tests fail in the sandbox before any answer is added: packages are missing, or
    do not fit."""
    CONTEXT_LENGTH = "context_length"
    """The dialogue is longer than the model's context."""
    TOOLCHAIN_MISSING = "toolchain_missing"
    """The sandbox has no compiler or runtime for the answer's language."""
    NETWORK_MISSING = "network_missing"
    """The tests need public web pages, which no sandbox has."""
    REFUSED = "refused"
    """The endpoint or the model refused to answer the prompt."""
    JUDGE_UNPARSABLE = "judge_unparsable"
    """No answer of the judge could be parsed."""
    JUDGE_SILENT = "judge_silent"
    """The judge gave no answer: its recording lacks one, or it refused."""

    @property
    def is_fault(self) -> bool:
        """True if the score counts towards the limit above which a run is withheld."""
        return self not in _NO_FAULTS


_NO_FAULTS = frozenset(
    {
        UnscoredReason.NOTHING_TO_FORGET,
        UnscoredReason.UNDEFINED,
        UnscoredReason.SOURCE_MISSING,
        UnscoredReason.ENVIRONMENT_MISSING,
        UnscoredReason.CONTEXT_LENGTH,
        UnscoredReason.TOOLCHAIN_MISSING,
        UnscoredReason.NETWORK_MISSING,
        UnscoredReason.REFUSED,
    }
)


def reason_of(episode: Episode, turn: int) -> UnscoredReason:
    """Return the reason why a round's answer has no verdict.

    An answer without a verdict is a fault of the infrastructure, and so is an answer that a fault
    prevented. A conversation longer than the model's context, a refused prompt and a missing source
    are no faults.
    """
    if episode.stop_reason is StopReason.NOT_ASKED:
        return UnscoredReason.SOURCE_MISSING
    if episode.stop_reason is StopReason.ENVIRONMENT_MISSING:
        return UnscoredReason.ENVIRONMENT_MISSING
    if episode.answer(turn) is not None or episode.stop_reason is StopReason.INFRA:
        return UnscoredReason.INFRA
    if episode.stop_reason is StopReason.REFUSED:
        return UnscoredReason.REFUSED
    return UnscoredReason.CONTEXT_LENGTH if episode.is_too_long else UnscoredReason.NO_ANSWER


def worst_of(reasons: Collection[object]) -> UnscoredReason | None:
    """Return the first of `reasons` in the order of `UnscoredReason`; None if there are none.

    Faults come first in that order.
    """
    return next((reason for reason in UnscoredReason if reason in reasons), None)


class Score(EpisodeRow):
    """One metric's value on one turn of one episode, or the reason why it has none.

    Exactly one of both is set.
    """

    turn: int = Field(ge=0)
    """1-based round; 0 for a metric of the whole episode."""
    instruction_id: str | None = None
    metric: str
    metric_version: int = Field(ge=1)
    value: float | None = None
    unscored_reason: UnscoredReason | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) == (self.unscored_reason is None):
            raise ValueError("a score has either a value or a reason why it has none")
        return self


RowT = TypeVar("RowT", bound=EpisodeRow)


def by_episode(rows: Iterable[RowT]) -> Mapping[str, Sequence[RowT]]:
    """Group scores, verdicts or judgements by the id of their episode."""
    return grouped((row.episode_id, row) for row in rows)
