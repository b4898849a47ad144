"""Rubrics as data, one judgement (request to a judge and parsed answer), and drift cases.

A rubric has a prompt, the schema of the judge's answer, and the values derived from an answer. A
judgement gives rows of the table `judge_verdicts`. Drift cases are short judgements that each night
requests again, from a benchmark's `drift.yaml`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, partial
from importlib.resources import files
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError

from schemas.base import Frozen
from schemas.content_id import canonical_json, content_id
from schemas.dialog import Role
from schemas.episode import UnscoredReason
from schemas.errors import AnswerMissing
from schemas.run import ModelIdentity, Sampling, judgement_id
from schemas.verdict import JudgeVerdict
from tasks.language.chat_model import (
    ChatModel,
    ChatRequest,
    Message,
    Messages,
    Unreadable,
    ask_until_read,
    prompt_text,
    spent,
    with_follow_up,
)
from tasks.language.prompt import fill, load_prompt, placeholders

Values = Callable[[Any], Mapping[str, float | str]]
"""Function that returns the values of an answer: dimension -> number or word."""


@dataclass(frozen=True)
class Rubric:
    """One quality that judges rate.

    Version, prompt and answer schema are part of the id of each run that uses the rubric. They are
    not part of episode ids.
    """

    name: str
    """Name, unique in its benchmark: the NAME of `--judge NAME=SPEC`."""
    version: str
    """Version of the rubric. Raise it if an unchanged prompt leads to other messages or values."""
    prompt: str
    """Text of the prompt file, with its placeholders."""
    answer: type[Frozen]
    """Model of the judge's answer. The judge sees its JSON schema."""
    values: Values
    dimensions: tuple[str, ...] = ("",)
    """Dimensions that a judgement rates. One without a value in an answer is `undefined`."""
    scope: Literal["turn", "dialogue"] = "turn"
    """Subject of one judgement: one answer, or the dialogue as a whole (turn 0)."""
    reads_verdicts: bool = False
    """True if the prompt contains test verdicts.

    Such rubrics wait for the tests. Others start when a dialogue ends.
    """
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Dimension -> lowest and highest value. Quality checks verify them."""
    is_reworded: bool = False
    """True if a user's own prompt describes the answer.

    The schema is then not appended, and field names are read case-insensitively.
    """
    words: tuple[str, ...] = ()
    """Allowed words of a rubric whose values are words."""
    people: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Additional dimensions that only people rate, with lowest and highest value."""
    tries: int = 3
    """Maximum number of requests for one judgement."""
    drift: Sequence[tuple[Message, ...]] = ()
    """Up to 10 short judgements that each night requests again, to detect changes of the judge."""

    def __post_init__(self) -> None:
        if len(self.drift) > MOST_DRIFT_CASES:
            raise ValueError(
                f"rubric {self.name!r} has {len(self.drift)} drift cases; at most"
                f" {MOST_DRIFT_CASES} are allowed"
            )

    @classmethod
    def of_package(
        cls,
        package: str,
        name: str,
        show: "Callable[[Case], Case]",
        prompt: str = "",
        **fields: Any,
    ) -> Self:
        """Return a rubric whose prompt file and drift cases are in a package.

        Args:
            package: Package with the folder `prompts`, and with `drift.yaml`.
            name: Name of the rubric.
            show: Returns the texts of the placeholders for a drift case.
            prompt: Name of the prompt file. Default: the rubric's name.
            fields: Other fields of the rubric.
        """
        text = load_prompt(package, prompt or name)
        return cls(name=name, prompt=text, drift=DriftMessages(package, name, text, show), **fields)

    def run(self, turn: int, **values: str) -> "JudgeRun":
        """Return the request for a judgement whose prompt has these values. See `JudgeRun.turn`."""
        return JudgeRun(turn, self.name, (Message(Role.USER, fill(self.prompt, **values)),))

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """Return the JSON schema that a judge's answer must fit."""
        return self.answer.model_json_schema()

    @cached_property
    def digest(self) -> str:
        """Return the digest of prompt and answer schema."""
        return content_id([self.prompt, self.schema])

    @cached_property
    def form(self) -> str:
        """Return the text that requests an answer with this schema."""
        return fill(
            load_prompt("tasks.judging", "schema"),
            schema=json.dumps(self.schema, sort_keys=True, ensure_ascii=False),
        )

    def with_form(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages with the answer's schema appended to the last one."""
        if self.is_reworded:
            return messages
        last = messages[-1]
        return (*messages[:-1], Message(last.role, f"{last.content}\n\n{self.form}"))


MOST_DRIFT_CASES = 10


@dataclass(frozen=True)
class JudgeRun:
    """Request for one judgement."""

    turn: int
    """1-based round. 0 for the dialogue as a whole."""
    rubric: str
    messages: tuple[Message, ...]
    """Rendered prompt, without the schema of the answer."""


@dataclass(frozen=True)
class RatingScale:
    """Allowed values of one dimension: a numeric range or a list of words.

    Without either, any value is allowed.
    """

    ends: tuple[float, float] | None = None
    words: tuple[str, ...] = ()

    def fault_of(self, value: float | str) -> str | None:
        """Return why a value is not on the scale, or None if it is."""
        if self.ends is not None and (
            isinstance(value, str) or not self.ends[0] <= value <= self.ends[1]
        ):
            low, high = self.ends
            shown = value if isinstance(value, str) else f"{value:g}"
            return f"value {shown}: the scale goes from {low:g} to {high:g}"
        if self.words and value not in self.words:
            return f"value {value!r}: the scale has {', '.join(self.words)}"
        return None


Scales = Mapping[str, Mapping[str, RatingScale]]
"""Rating scales of a benchmark: rubric -> dimension -> scale."""


def scales_of(rubrics: Mapping[str, Rubric]) -> Scales:
    """Return the scales of people's ratings by these rubrics."""
    return {name: _scales(rubric) for name, rubric in rubrics.items()}


def _scales(rubric: Rubric) -> Mapping[str, RatingScale]:
    own = {name: RatingScale(rubric.ranges.get(name), rubric.words) for name in rubric.dimensions}
    return own | {name: RatingScale(ends) for name, ends in rubric.people.items()}


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
    last = result.answers[-1]
    silent = not last.content and result.value is None
    reason = UnscoredReason.JUDGE_SILENT if silent else UnscoredReason.JUDGE_UNPARSABLE
    return Judgement(
        judgement_id=name,
        answer_json=None if result.value is None else canonical_json(result.value),
        unscored_reason=None if result.value is not None else reason,
        raw=last.content or result.reason,
        served_model=last.served_model,
        **asdict(spent(result.answers)),
    )


def _again(first: Messages, answer: str, reason: str) -> Messages:
    return with_follow_up(first, answer, fill(load_prompt("tasks.judging", "again"), reason=reason))


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
            reason = judgement.unscored_reason or UnscoredReason.UNDEFINED
            yield dimension, None, None, reason.value


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


Case = Mapping[str, Any]
"""Drift case: placeholder -> text, or messages as (role, text) pairs.

The key `expected` has the rating that a careful human reader gave.
"""


@cache
def drift_cases(package: str, rubric: str) -> tuple[Case, ...]:
    """Return a rubric's drift cases in file order.

    A night compares each case with the first night that judged it, by position. Add new cases at
    the end.
    """
    of_rubric = _document(package)[rubric]
    return tuple({**of_rubric.get("shared", {}), **case} for case in of_rubric["cases"])


class DriftMessages(Sequence[tuple[Message, ...]]):
    """Prompts of a rubric's drift cases, rendered on first access.

    Rendering is delayed because some benchmarks count tokens in the texts, which is slow.

    Args:
        package: Package that contains `drift.yaml`.
        rubric: Name of the rubric.
        prompt: Prompt of the rubric, with its placeholders.
        show: Returns the texts of the placeholders for a case.
    """

    def __init__(
        self, package: str, rubric: str, prompt: str, show: Callable[[Case], Case]
    ) -> None:
        self._cases, self._prompt, self._show = drift_cases(package, rubric), prompt, show

    def __len__(self) -> int:
        return len(self._cases)

    def __getitem__(self, index: Any) -> Any:
        return self._messages[index]

    @cached_property
    def _messages(self) -> tuple[tuple[Message, ...], ...]:
        names, shown = placeholders(self._prompt), map(self._show, self._cases)
        texts = (
            fill(self._prompt, **{name: values[name] for name in names if name in values})
            for values in shown
        )
        return tuple((Message(Role.USER, text),) for text in texts)


@cache
def _document(package: str) -> Mapping[str, Any]:
    text = files(package).joinpath("drift.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
