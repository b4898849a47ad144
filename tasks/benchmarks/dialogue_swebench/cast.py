"""Participants: an agent in a workspace or a model that answers with a patch, and the user.

A simulated user knows the issue and a persona but neither tests nor patch. A check follows each
reply, and a revision if the check finds violations.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from schemas.base import Frozen
from schemas.dialog import Role
from schemas.episode import Step, StepKind, StopReason
from schemas.errors import ModelUnavailable
from schemas.run import Sampling
from tasks.benchmarks.dialogue_swebench.settings import (
    FIRST_QUERY,
    MOST_REVIEW_TOKENS,
    PERSONA_TEXT,
    PROMPTS,
    SETTINGS,
    revises,
)
from tasks.benchmarks.program_runs import diff_in
from tasks.benchmarks.setting import CastRequest, own_texts
from tasks.dialogue.agents.repository.labels import ENDED, FINISHED
from tasks.dialogue.engine import Cast, Stop, Transcript
from tasks.dialogue.reviewed_subject import (
    CANDIDATE,
    PART,
    REVIEW,
    REVIEWED,
    UNREADABLE,
    VIOLATIONS,
)
from tasks.language.chat_model import (
    AskResult,
    ChatModel,
    Message,
    Messages,
    Unreadable,
    ask_simulator,
    with_follow_up,
)
from tasks.language.prompt import fill, quote_messages, quote_text

MOST_ROUNDS, MOST_STEPS = 101, 2000
"""Limits of rounds and steps, which the agents' own limit of 100 steps never reaches."""


def cast(request: CastRequest) -> Cast:
    """Return the participants of a setting.

    Only the user sees the issue. Neither participant sees the tests or the reference patch.

    Raises:
        ConfigError: The setting needs a simulator for the agent, and there is none.
    """
    is_alone = request.setting == FIRST_QUERY
    model = request.simulator if request.make_subject is None or is_alone else request.user_model
    user = IssueUser(
        opening=own_texts(request.dialog, request.options)[0],
        persona=dict(request.dialog.labels)[PERSONA_TEXT],
        model=None if is_alone else model,
        sampling=SETTINGS[request.setting].simulated(request.simulator_sampling, request.sampling),
        revises=revises(request.setting),
        unavailable=PROMPTS["unavailable"] if is_alone else None,
        ends_with_diff=request.make_subject is None,
    )
    return Cast(
        subject=request.subject_participant(),
        counterpart=user,
        max_turns=MOST_ROUNDS,
        max_steps=MOST_STEPS,
    )


T = TypeVar("T")
MOST_WORDS, TRIES = 120, 3
MOST_EMPTY = 3
"""Number of successive empty answers that end the dialogue of a subject without tools.

Such a subject has no step limit.
"""
REVISED, LEFT = "revised", "violations_left"
"""Labels of a simulated reply.

`revised` is 1 if the reply was revised, and absent if no model checked the reply.
`violations_left` lists the faults that a program finds in the sent reply.
"""
TOO_LONG = "too_long"
_NAME = "User:"


# Both docstrings are part of the schema that the simulator sees. Do not change them.
class Violation(Frozen):
    """What is wrong with a candidate."""

    kind: Literal["hallucination", "ran_code", "left_goal", "other_rule"]
    why: str


class Reviewed(Frozen):
    """The check of a candidate."""

    violations: tuple[Violation, ...] = Field(max_length=8)


@dataclass(frozen=True)
class IssueUser:
    """User who opens with a fixed message, then answers as the persona until the agent ends."""

    opening: str
    persona: str
    model: ChatModel | None
    """Model of the user. None if the user does not answer after the first message."""
    sampling: Sampling
    """Sampling of a reply. The check of a reply may use at least `MOST_REVIEW_TOKENS` tokens."""
    revises: bool = True
    unavailable: str | None = None
    """Text that the user sends in place of every reply after the first message, if it is set."""
    ends_with_diff: bool = False
    """True for a subject without tools: a diff or `MOST_EMPTY` empty answers end the dialogue."""

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """Return the user's next step in round `transcript.turn`: a draft, its check, or the reply.

        At the end of the dialogue, return a Stop.

        Raises:
            ModelUnavailable: The simulator gave no usable reply, which is not the subject's
                failure.
        """
        if transcript.turn == 1:
            return Step(turn=1, role=Role.USER, content=self.opening)
        if end := self._end(transcript):
            return end
        if self.unavailable is not None:
            return Step(turn=transcript.turn, role=Role.USER, content=self.unavailable)
        own_steps = transcript.turn_steps
        if not own_steps:
            return await self._candidate(transcript)
        candidate = own_steps[0].content
        if not self.revises:
            return self._reply_step(transcript, candidate, ())
        if len(own_steps) == 1:
            return await self._review(transcript, candidate)
        labels = dict(own_steps[1].labels)
        violations = tuple(filter(None, labels[VIOLATIONS].split(",")))
        if not violations:
            is_unreadable = labels.get(REVIEWED) == UNREADABLE
            return self._reply_step(
                transcript,
                candidate,
                ((REVIEWED, UNREADABLE),) if is_unreadable else ((VIOLATIONS, ""), (REVISED, "0")),
            )
        return await self._revise(transcript, candidate, own_steps[1].content, violations)

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
        result = await self._ask(transcript, self._simulator_messages(transcript), _reply_text)
        if result.value is None:
            raise self._no_reply_error(transcript, result)
        return self._step(transcript, result, result.value, StepKind.ARTIFACT, ((PART, CANDIDATE),))

    async def _review(self, transcript: Transcript, candidate: str) -> Step:
        text = fill(
            PROMPTS["review"],
            issue=transcript.problem.prompt,
            dialogue=_quote(transcript.messages),
            reply=quote_text(candidate),
            words=str(MOST_WORDS),
        )
        schema = Reviewed.model_json_schema()
        result = await self._ask(transcript, (Message(Role.USER, text),), _read_review, schema)
        violations = result.value.violations if result.value is not None else ()
        kinds = dict.fromkeys(
            [*(violation.kind for violation in violations), *_hard_faults(candidate)]
        )
        content = (
            result.value.model_dump_json()
            if result.value is not None
            else json.dumps({"unreadable": result.reason})
        )
        status = "yes" if result.value is not None else UNREADABLE
        labels = ((PART, REVIEW), (VIOLATIONS, ",".join(kinds)), (REVIEWED, status))
        return self._step(transcript, result, content, StepKind.ARTIFACT, labels)

    async def _revise(
        self, transcript: Transcript, candidate: str, review: str, violations: tuple[str, ...]
    ) -> Step:
        problems = [f"{fault.kind}: {fault.why}" for fault in _violations_in(review)]
        if TOO_LONG in violations:
            problems.append(f"it has {len(candidate.split())} words; {MOST_WORDS} are allowed")
        request = fill(
            PROMPTS["revise"],
            problems="\n".join(f"- {line}" for line in problems),
            words=str(MOST_WORDS),
        )
        messages = (
            *self._simulator_messages(transcript),
            Message(Role.ASSISTANT, candidate),
            Message(Role.USER, request),
        )
        result = await self._ask(transcript, messages, _reply_text)
        if result.value is None:
            raise self._no_reply_error(transcript, result)
        labels = (
            (VIOLATIONS, ",".join(violations)),
            (REVISED, "1"),
            (LEFT, ",".join(_hard_faults(result.value))),
        )
        return self._step(transcript, result, result.value, StepKind.MESSAGE, labels)

    def _simulator_messages(self, transcript: Transcript) -> Messages:
        """Return the dialogue for the simulator, in which the agent has the role of the user."""
        system = fill(
            PROMPTS["user"],
            persona=self.persona,
            issue=transcript.problem.prompt,
            words=str(MOST_WORDS),
        )
        messages = [Message(Role.USER, "Hello! What can I do for you?")]
        for step in transcript.messages:
            role = Role.ASSISTANT if step.role is Role.USER else Role.USER
            messages.append(Message(role, step.content or "(nothing)"))
        return (Message(Role.SYSTEM, system), *messages)

    async def _ask(
        self,
        transcript: Transcript,
        messages: Messages,
        read: Callable[[str], T],
        schema: Mapping[str, Any] | None = None,
    ) -> AskResult[T]:
        sampling = self.sampling if schema is None else _review_sampling(self.sampling)
        request = transcript.request(messages, sampling, answer_schema=schema)

        def again(answer: str, reason: str) -> Messages:
            return with_follow_up(messages, answer, f"That cannot be used: {reason}. Answer again.")

        assert self.model is not None
        return await ask_simulator(self.model, request, again, read, tries=TRIES)

    def _no_reply_error(self, transcript: Transcript, result: AskResult[Any]) -> ModelUnavailable:
        assert self.model is not None
        return ModelUnavailable(
            f"simulator {self.model.identity.label}: {len(result.answers)} replies in round"
            f" {transcript.turn} of {transcript.problem.problem_id} are unusable ({result.reason})."
            " Choose a simulator with a longer context",
            n_calls=result.cost["n_calls"],
        )

    def _reply_step(
        self, transcript: Transcript, reply: str, labels: tuple[tuple[str, str], ...]
    ) -> Step:
        left = (LEFT, ",".join(_hard_faults(reply)))
        return Step(turn=transcript.turn, role=Role.USER, content=reply, labels=(*labels, left))

    def _step(
        self,
        transcript: Transcript,
        result: AskResult[Any],
        content: str,
        kind: StepKind,
        labels: tuple[tuple[str, str], ...],
    ) -> Step:
        return Step(
            turn=transcript.turn,
            role=Role.USER,
            content=content,
            kind=kind,
            labels=labels,
            **result.cost,
        )


def _review_sampling(sampling: Sampling) -> Sampling:
    return sampling.model_copy(
        update={"max_tokens": max(MOST_REVIEW_TOKENS, sampling.max_tokens or MOST_REVIEW_TOKENS)}
    )


def _reply_text(answer: str) -> str:
    text = answer.strip().removeprefix(_NAME).strip()
    if not text:
        raise Unreadable("it is empty")
    return text


def _read_review(answer: str) -> Reviewed:
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        return Reviewed.model_validate_json(answer[begin : end + 1] if begin >= 0 else answer)
    except ValidationError as error:
        raise Unreadable(
            f"it is not the JSON that was asked for ({error.errors()[0]['msg']})"
        ) from None


def _violations_in(review: str) -> tuple[Violation, ...]:
    try:
        return _read_review(review).violations
    except Unreadable:
        return ()


def _hard_faults(reply: str) -> tuple[str, ...]:
    """Return the faults of a reply that a program can find."""
    return (TOO_LONG,) if len(reply.split()) > MOST_WORDS else ()


def _quote(messages: tuple[Step, ...]) -> str:
    return quote_messages(
        ("user" if step.role is Role.USER else "agent", step.content) for step in messages
    )


SEED = "dialogue_swebench personas 1"
"""Seed, hashed with each instance's id. Another seed requires another version of the benchmark."""


class Personas(Frozen):
    """Names and descriptions to draw from."""

    names: tuple[str, ...] = Field(min_length=1)
    descriptions: dict[str, str] = Field(min_length=1)


@cache
def personas() -> Personas:
    """Return the bundled personas."""
    return Personas.model_validate(
        yaml.safe_load((files(__package__ or "") / "personas.yaml").read_text(encoding="utf-8"))
    )


def draw_persona(instance_id: str) -> tuple[str, str]:
    """Return the name of the description, and the persona's text."""
    choices = personas()
    number = int.from_bytes(hashlib.sha256(f"{SEED}\0{instance_id}".encode()).digest()[:8], "big")
    kind = sorted(choices.descriptions)[number % len(choices.descriptions)]
    name = choices.names[number // len(choices.descriptions) % len(choices.names)]
    return kind, fill(choices.descriptions[kind], name=name)
