"""One judgement: request to a judge, parsed answer, and rows of the table `judge_verdicts`."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import Field, ValidationError

from schemas.base import Frozen
from schemas.content_id import canonical_json
from schemas.dialog import Role
from schemas.episode import UnscoredReason
from schemas.errors import AnswerMissing
from schemas.run import ModelIdentity, Sampling, judgement_id
from schemas.verdict import JudgeVerdict
from tasks.judging.rubric import Rubric
from tasks.language.chat_model import (
    ChatModel,
    ChatRequest,
    Message,
    Messages,
    Unreadable,
    ask_until_read,
    prompt_text,
    spent,
)
from tasks.language.prompt import fill, load_prompt

_SHOWN_AGAIN = 2000
"""Characters of an unreadable answer to repeat to the judge.

An endless answer would fill the context.
"""
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_FAULTS_SHOWN = 3


class Judgement(Frozen):
    """Answer of a judge to one prompt. Several dialogues can share it."""

    judgement_id: str
    answer_json: str | None = None
    """Parsed answer as canonical JSON. None if no answer was readable."""
    unscored_reason: UnscoredReason | None = None
    raw: str = ""
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    latency_s: float | None = Field(default=None, ge=0)
    n_calls: int = Field(default=0, ge=0)
    served_model: str | None = None
    reasoning_tokens: int | None = Field(default=None, ge=0)


STORED_FIELDS = tuple(name for name in Judgement.model_fields if name in JudgeVerdict.model_fields)
"""Columns of `judge_verdicts` from which a stored judgement is restored."""


def id_of(messages: Messages, judge: ModelIdentity, sampling: Sampling) -> str:
    """Return the id of the judgement of a whole prompt, which includes the answer's schema."""
    return judgement_id(prompt=prompt_text(messages), judge=judge, sampling=sampling)


async def ask_judge(model: ChatModel, rubric: Rubric, request: ChatRequest, name: str) -> Judgement:
    """Request a judgement up to `rubric.tries` times, until the answer is readable.

    A judgement without a readable answer is unscored, never 0.

    Args:
        model: Model of the judge.
        rubric: Rubric to judge by.
        request: Request whose messages include the schema of the answer.
        name: Id of the judgement.

    Raises:
        ModelUnavailable: The endpoint failed. The judgement stays pending.
    """
    try:
        result = await ask_until_read(
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
    cost, last = spent(result.answers), result.answers[-1]
    silent = not last.content and result.value is None
    reason = UnscoredReason.JUDGE_SILENT if silent else UnscoredReason.JUDGE_UNPARSABLE
    return Judgement(
        judgement_id=name,
        answer_json=None if result.value is None else canonical_json(result.value),
        unscored_reason=None if result.value is not None else reason,
        raw=last.content or result.reason,
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
    """Return the only JSON object in the answer. Text and code fences around it are ignored."""
    match = _OBJECT.search(answer)
    if match is None:
        raise Unreadable("it holds no JSON object")
    try:
        fields = json.loads(match.group())
        if rubric.is_reworded:  # Published templates request capitalised `Score` and `Rationale`.
            fields = {name.lower(): value for name, value in fields.items()}
        return rubric.answer.model_validate(fields)
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
    """Yield (dimension, number, word, unscored reason) for each dimension.

    One of the last three is set.
    """
    values = (
        rubric.values(rubric.answer.model_validate_json(judgement.answer_json))
        if judgement.answer_json is not None
        else {}
    )
    for dimension in rubric.dimensions:
        value = values.get(dimension)
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
    """Yield one row for each dimension of the rubric.

    Args:
        rubric: Rubric of the judgement.
        judge: Label of the judge's model.
        judgement: Judgement to convert.
        about: Columns that identify run, episode and turn.
        is_reused: True if the run did not request the judgement itself.
    """
    shared = judgement.model_dump(include=set(STORED_FIELDS) - {"unscored_reason"})
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
