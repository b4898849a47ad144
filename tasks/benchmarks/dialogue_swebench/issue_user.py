"""The simulated user: knows the issue and a persona, never tests or patch; each reply is checked and, if need be, revised."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import AnswerMissing, ModelUnavailable
from schemas.run import Sampling
from tasks.benchmarks.patches import diff_in
from tasks.dialogue.agents.repository import ENDED, FINISHED
from tasks.dialogue.drafts import CANDIDATE, PART, REVIEW, REVIEWED, UNREADABLE, VIOLATIONS
from tasks.dialogue.seats import Stop
from tasks.dialogue.transcript import Transcript
from tasks.language.asking import Asked, Messages, Unreadable, ask_until_read
from tasks.language.chat_model import ChatModel, ChatRequest, Message
from tasks.language.prompt import fill
from tasks.language.quotation import quote_talk, quote_text
from tasks.language.spent import spent

T = TypeVar("T")
MOST_WORDS, TRIES = 120, 3
MOST_EMPTY = 3
"""Empty answers in a row that end the dialogue of a subject without tools: no step limit ends it."""
REVISED, LEFT = "revised", "violations_left"
"""Labels of a simulated reply: 1 where it was revised (missing where nobody looked); what a program still finds wrong with the
reply that was sent."""
MOST_TOKENS, MOST_REVIEW_TOKENS = 600, 1200
"""Of a reply and of its check. They are the simulator's own: the subject's limit says nothing of it."""
_REPLY = Sampling(max_tokens=MOST_TOKENS)
TOO_LONG = "too_long"
_NAME = "User:"
_SHOWN_AGAIN = 2000


class Violation(Frozen):
    """What is wrong with a candidate."""

    kind: Literal["hallucination", "ran_code", "left_goal", "other_rule"]
    why: str


class Reviewed(Frozen):
    """The check of a candidate."""

    violations: tuple[Violation, ...] = Field(max_length=8)


@dataclass(frozen=True)
class IssueUser:
    """Opens with a fixed message, then answers as the persona until the agent ends the dialogue."""

    opening: str
    persona: str
    model: ChatModel | None
    """None where nobody answers: after its first message the user is not available."""
    prompts: Mapping[str, str]
    sampling: Sampling = _REPLY
    """Of a reply; a review has `MOST_REVIEW_TOKENS` at least."""
    revises: bool = True
    unavailable: str | None = None
    """Said in the place of every later reply."""
    ends_with_diff: bool = False
    """Whether an answer that is a diff ends the dialogue, and `MOST_EMPTY` empty ones in a row: of a subject without tools."""
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The user's next step in round `transcript.turn`: a candidate, its check, or the reply; or the end.

        Raises:
            ModelUnavailable: the simulator gave no usable reply, which is no failure of the subject's.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=self.role, content=self.opening)
        if end := self._end(transcript):
            return end
        if self.unavailable is not None:
            return Step(turn=transcript.turn, role=self.role, content=self.unavailable)
        taken = transcript.taken
        if not taken:
            return await self._candidate(transcript)
        candidate = taken[0].content
        if not self.revises:
            return self._said(transcript, candidate, ())
        if len(taken) == 1:
            return await self._review(transcript, candidate)
        known = dict(taken[1].labels)
        violations = tuple(filter(None, known[VIOLATIONS].split(",")))
        if not violations:
            unknown = known.get(REVIEWED) == UNREADABLE
            return self._said(
                transcript,
                candidate,
                ((REVIEWED, UNREADABLE),) if unknown else ((VIOLATIONS, ""), (REVISED, "0")),
            )
        return await self._revised(transcript, candidate, taken[1].content, violations)

    def _end(self, transcript: Transcript) -> Stop | None:
        last = transcript.messages[-1]
        ended = dict(last.labels).get(ENDED)
        if ended is not None:
            return Stop(StopReason.FINISHED if ended == FINISHED else StopReason.TURN_LIMIT)
        if self.ends_with_diff and diff_in(last.content) is not None:
            return Stop(StopReason.FINISHED)
        latest = transcript.texts(Role.ASSISTANT)[-MOST_EMPTY:]
        if (
            self.ends_with_diff
            and len(latest) == MOST_EMPTY
            and not any(text.strip() for text in latest)
        ):
            return Stop(StopReason.TURN_LIMIT)
        return (
            Stop(StopReason.FINISHED) if self.model is None and self.unavailable is None else None
        )

    async def _candidate(self, transcript: Transcript) -> Step:
        asked = await self._ask(transcript, self._talk(transcript), _spoken)
        if asked.value is None:
            raise self._silent(transcript, asked)
        return self._step(transcript, asked, asked.value, StepKind.ARTIFACT, ((PART, CANDIDATE),))

    async def _review(self, transcript: Transcript, candidate: str) -> Step:
        text = fill(
            self.prompts["review"],
            issue=transcript.problem.prompt,
            dialogue=_quoted(transcript.messages),
            reply=quote_text(candidate),
            words=str(MOST_WORDS),
        )
        schema = Reviewed.model_json_schema()
        asked = await self._ask(transcript, (Message(Role.USER, text),), _reviewed, schema)
        found = asked.value.violations if asked.value is not None else ()
        kinds = dict.fromkeys([*(one.kind for one in found), *_hard_faults(candidate)])
        told = (
            asked.value.model_dump_json()
            if asked.value is not None
            else json.dumps({"unreadable": asked.reason})
        )
        read = "yes" if asked.value is not None else UNREADABLE
        labels = ((PART, REVIEW), (VIOLATIONS, ",".join(kinds)), (REVIEWED, read))
        return self._step(transcript, asked, told, StepKind.ARTIFACT, labels)

    async def _revised(
        self, transcript: Transcript, candidate: str, review: str, violations: tuple[str, ...]
    ) -> Step:
        found = [f"{one.kind}: {one.why}" for one in _reviewed_or_none(review)]
        if TOO_LONG in violations:
            found.append(f"it has {len(candidate.split())} words; {MOST_WORDS} are allowed")
        asking = fill(
            self.prompts["revise"],
            problems="\n".join(f"- {line}" for line in found),
            words=str(MOST_WORDS),
        )
        messages = (
            *self._talk(transcript),
            Message(Role.ASSISTANT, candidate),
            Message(Role.USER, asking),
        )
        asked = await self._ask(transcript, messages, _spoken)
        if asked.value is None:
            raise self._silent(transcript, asked)
        labels = (
            (VIOLATIONS, ",".join(violations)),
            (REVISED, "1"),
            (LEFT, ",".join(_hard_faults(asked.value))),
        )
        return self._step(transcript, asked, asked.value, StepKind.MESSAGE, labels)

    def _talk(self, transcript: Transcript) -> Messages:
        """The dialogue as the simulator sees it: it is the assistant, and the agent its user."""
        system = fill(
            self.prompts["user"],
            persona=self.persona,
            issue=transcript.problem.prompt,
            words=str(MOST_WORDS),
        )
        said = [Message(Role.USER, "Hello! What can I do for you?")]
        for step in transcript.messages:
            role = Role.ASSISTANT if step.role is Role.USER else Role.USER
            said.append(Message(role, step.content or "(nothing)"))
        return (Message(Role.SYSTEM, system), *said)

    async def _ask(
        self,
        transcript: Transcript,
        messages: Messages,
        read: Callable[[str], T],
        schema: Mapping[str, Any] | None = None,
    ) -> Asked[T]:
        request = ChatRequest(
            messages=messages,
            sampling=self.sampling if schema is None else _of_a_review(self.sampling),
            seed=transcript.seed,
            problem_id=transcript.problem.problem_id,
            turn=transcript.turn,
            sample=transcript.sample,
            dialog_id=transcript.dialog.dialog_id,
            answer_schema=schema,
            call_index=transcript.call_index,
        )

        def again(answer: str, reason: str) -> Messages:
            return (
                *messages,
                Message(Role.ASSISTANT, answer[:_SHOWN_AGAIN] or "-"),
                Message(Role.USER, f"That cannot be used: {reason}. Answer again."),
            )

        assert self.model is not None
        try:
            return await ask_until_read(self.model, request, again, read, tries=TRIES)
        except AnswerMissing as missing:
            raise ModelUnavailable(f"simulator: {missing}", permanent=True) from missing

    def _silent(self, transcript: Transcript, asked: Asked[Any]) -> ModelUnavailable:
        assert self.model is not None
        return ModelUnavailable(
            f"simulator {self.model.identity.label}: {len(asked.answers)} replies in round {transcript.turn} of "
            f"{transcript.problem.problem_id} cannot be used ({asked.reason}); name a simulator with a longer context",
            n_calls=spent(asked.answers).n_calls,
        )

    def _said(self, transcript: Transcript, reply: str, found: tuple[tuple[str, str], ...]) -> Step:
        labels = (*found, (LEFT, ",".join(_hard_faults(reply))))
        return Step(turn=transcript.turn, role=self.role, content=reply, labels=labels)

    def _step(
        self,
        transcript: Transcript,
        asked: Asked[Any],
        content: str,
        kind: StepKind,
        labels: tuple[tuple[str, str], ...],
    ) -> Step:
        cost, last = spent(asked.answers), asked.answers[-1]
        return Step(
            turn=transcript.turn,
            role=self.role,
            content=content,
            kind=kind,
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
            latency_s=cost.latency_s,
            n_calls=cost.n_calls,
            finish_reason=last.finish_reason,
            served_model=last.served_model,
            adapted=last.adapted,
            reasoning_tokens=cost.reasoning_tokens,
            labels=labels,
        )


def _of_a_review(sampling: Sampling) -> Sampling:
    return sampling.model_copy(
        update={"max_tokens": max(MOST_REVIEW_TOKENS, sampling.max_tokens or MOST_REVIEW_TOKENS)}
    )


def _spoken(answer: str) -> str:
    text = answer.strip().removeprefix(_NAME).strip()
    if not text:
        raise Unreadable("it is empty")
    return text


def _reviewed(answer: str) -> Reviewed:
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        return Reviewed.model_validate_json(answer[begin : end + 1] if begin >= 0 else answer)
    except ValidationError as error:
        raise Unreadable(
            f"it is not the JSON that was asked for ({error.errors()[0]['msg']})"
        ) from None


def _reviewed_or_none(review: str) -> tuple[Violation, ...]:
    try:
        return _reviewed(review).violations
    except Unreadable:
        return ()


def _hard_faults(reply: str) -> tuple[str, ...]:
    """What a program finds wrong with a reply."""
    return (TOO_LONG,) if len(reply.split()) > MOST_WORDS else ()


def _quoted(messages: tuple[Step, ...]) -> str:
    return quote_talk(
        ("user" if step.role is Role.USER else "agent", step.content) for step in messages
    )
