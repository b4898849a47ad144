"""One judgement: asked of a model, read, and told as rows of the table `judge_verdicts`."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import Field, ValidationError

from schemas.base import Frozen
from schemas.content_id import canonical_json
from schemas.dialog import Role
from schemas.errors import AnswerMissing
from schemas.run import ModelIdentity, Sampling, judgement_id
from schemas.score import UnscoredReason
from schemas.verdict import JudgeVerdict
from tasks.judging.rubric import Rubric
from tasks.language.asking import Messages, Unreadable, ask_until_read
from tasks.language.chat_model import ChatModel, ChatRequest, Message, said_in
from tasks.language.prompt import fill, load_prompt
from tasks.language.spent import spent

_SHOWN_AGAIN = 2000
"""Characters of an unreadable answer that the judge is shown again, so that an endless one fills no context."""
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_FAULTS_SHOWN = 3


class Judgement(Frozen):
    """What a judge said to one prompt, whichever dialogues it is about."""

    judgement_id: str
    answer_json: str | None = None
    """The parsed answer, canonical JSON; None where no answer could be read."""
    unscored_reason: UnscoredReason | None = None
    raw: str = ""
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    latency_s: float | None = Field(default=None, ge=0)
    n_calls: int = Field(default=0, ge=0)
    served_model: str | None = None
    reasoning_tokens: int | None = Field(default=None, ge=0)


KEPT_FIELDS = tuple(name for name in Judgement.model_fields if name in JudgeVerdict.model_fields)
"""Columns of `judge_verdicts` that a judgement is read from again."""


def id_of(messages: Messages, judge: ModelIdentity, sampling: Sampling) -> str:
    """Id of the judgement of a whole prompt, the form of the answer included."""
    return judgement_id(prompt=said_in(messages), judge=judge, sampling=sampling)


async def ask_judge(model: ChatModel, rubric: Rubric, request: ChatRequest, name: str) -> Judgement:
    """Ask until an answer can be read, `rubric.tries` times at most. One that cannot is unscored, never 0.

    Args:
        request: its messages hold the form of the answer.
        name: the judgement's id.

    Raises:
        ModelUnavailable: a fault of the service; the judgement is pending again.
    """
    try:
        asked = await ask_until_read(
            model,
            request,
            partial(_again, request.messages),
            partial(_read, rubric),
            tries=rubric.tries,
        )
    except AnswerMissing as missing:
        return Judgement(
            judgement_id=name, unscored_reason=UnscoredReason.JUDGE_SILENT, raw=str(missing)
        )
    cost, last = spent(asked.answers), asked.answers[-1]
    silent = not last.content and asked.value is None
    reason = UnscoredReason.JUDGE_SILENT if silent else UnscoredReason.JUDGE_UNPARSABLE
    return Judgement(
        judgement_id=name,
        answer_json=None if asked.value is None else canonical_json(asked.value),
        unscored_reason=None if asked.value is not None else reason,
        raw=last.content or asked.reason,
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        latency_s=cost.latency_s,
        n_calls=cost.n_calls,
        served_model=last.served_model,
        reasoning_tokens=cost.reasoning_tokens,
    )


def _again(first: Messages, answer: str, reason: str) -> Messages:
    words = fill(load_prompt("tasks.judging", "again"), reason=reason)
    return (
        *first,
        Message(Role.ASSISTANT, answer[:_SHOWN_AGAIN] or "-"),
        Message(Role.USER, words),
    )


def _read(rubric: Rubric, answer: str) -> Frozen:
    """The answer's one JSON object. Words and fences around it are passed over."""
    found = _OBJECT.search(answer)
    if found is None:
        raise Unreadable("it holds no JSON object")
    try:
        held = json.loads(found.group())
        if rubric.is_reworded:  # authors' templates ask for `Score` and `Rationale`
            held = {name.lower(): value for name, value in held.items()}
        return rubric.answer.model_validate(held)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the object'}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise Unreadable("; ".join(faults[:_FAULTS_SHOWN])) from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not valid JSON ({str(error)[:100]})") from None


def values_of(
    rubric: Rubric, judgement: Judgement
) -> Iterator[tuple[str, float | None, str | None, str | None]]:
    """(dimension, number, word, why there is neither) for each dimension: one of the three is not None."""
    said = (
        rubric.values(rubric.answer.model_validate_json(judgement.answer_json))
        if judgement.answer_json is not None
        else {}
    )
    for dimension in rubric.dimensions:
        value = said.get(dimension)
        if isinstance(value, str):
            yield dimension, None, value, None
        elif value is not None:
            yield dimension, float(value), None, None
        else:
            yield (
                dimension,
                None,
                None,
                (judgement.unscored_reason or UnscoredReason.UNDEFINED).value,
            )


def verdicts_of(
    rubric: Rubric, judge: str, judgement: Judgement, about: Mapping[str, Any], *, is_reused: bool
) -> Iterator[JudgeVerdict]:
    """One row for each dimension of the rubric.

    Args:
        judge: the model's label.
        about: the columns that name run, episode and turn.
    """
    shared = judgement.model_dump(include=set(KEPT_FIELDS) - {"unscored_reason"})
    for dimension, value, label, reason in values_of(rubric, judgement):
        yield JudgeVerdict(
            **about,
            **shared,
            rubric=rubric.name,
            rubric_version=rubric.version,
            judge=judge,
            dimension=dimension,
            value=value,
            label=label,
            unscored_reason=reason,
            is_reused=is_reused,
        )
