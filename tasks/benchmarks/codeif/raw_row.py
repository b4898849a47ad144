"""One row of a task file in upstream's own format, validated."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION, STRATEGIES

MAX_DETAIL = 500


class BadRow(ValueError):
    """A row that cannot be staged; `reason` is the machine-readable name."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail if len(detail) <= MAX_DETAIL else detail[: MAX_DETAIL - 1] + "…"


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank_text", "the text is blank")
    return text


def _as_list(tests: Any) -> Any:
    return [tests] if isinstance(tests, str) else tests


def _some_tests(tests: list[str]) -> list[str]:
    if not tests or not all(test.strip() for test in tests):
        raise PydanticCustomError("empty_tests", "no tests, or a blank one among them")
    return tests


def _known(name: str) -> str:
    if name not in STRATEGIES:
        raise PydanticCustomError("unknown_requirement", "unknown requirement; known: {known}", {"known": ", ".join(STRATEGIES)})
    return name


Text = Annotated[str, AfterValidator(_not_blank)]
Tests = Annotated[list[str], BeforeValidator(_as_list), AfterValidator(_some_tests)]
StrategyName = Annotated[str, AfterValidator(_known)]
_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


class RawRequirement(BaseModel):
    model_config = _RAW

    requirement: Text
    unit_test: Tests


class RawRow(BaseModel):
    """A task: `test` and each `unit_test` are one string or a list of strings."""

    model_config = _RAW

    task_id: int = Field(ge=0)
    prompt: Text
    test: Tests
    code: Text
    requirements: dict[StrategyName, RawRequirement]
    multi_turn: list[StrategyName] = Field(alias="multi-turn")

    @model_validator(mode="after")
    def _turns_have_requirements(self) -> "RawRow":
        for name in self.multi_turn:
            if name not in self.requirements:
                raise PydanticCustomError(
                    "unknown_turn", "multi-turn names {name}, which the row's requirements lack", {"name": name}
                )
            if self.multi_turn.count(name) > 1:
                raise PydanticCustomError("duplicate_turn", "multi-turn names {name} more than once", {"name": name})
        return self

    def turn_order(self, dataset_version: str) -> tuple[str, ...]:
        """Requirements in the order they are given.

        The published experiments on v0 end with Functionality Extension wherever the task has it; v0's lists mostly leave it out.
        """
        order = tuple(self.multi_turn)
        if dataset_version == "v0" and FUNCTIONALITY_EXTENSION in self.requirements and FUNCTIONALITY_EXTENSION not in order:
            return (*order, FUNCTIONALITY_EXTENSION)
        return order


def parse_row(content: bytes) -> tuple[RawRow, dict[str, Any]]:
    """A line as validated row and as the JSON object it was.

    Raises:
        BadRow: broken_json, not_utf8, duplicate_key, not_an_object, missing_field, wrong_type, blank_text, empty_tests,
            unknown_requirement, unknown_turn, duplicate_turn or lone_surrogate.
    """
    raw = parse_object(content)
    try:
        return RawRow.model_validate(raw), raw
    except ValidationError as invalid:
        raise BadRow(_reason(invalid), _describe(invalid)) from None


def parse_object(content: bytes) -> dict[str, Any]:
    """A line as JSON object.

    Raises:
        BadRow: not_utf8, broken_json, duplicate_key, not_an_object or lone_surrogate.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise BadRow("not_utf8", f"byte {fault.start} of the line is not UTF-8") from None
    try:
        raw = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except BadRow:
        raise
    except (ValueError, RecursionError) as fault:
        raise BadRow("broken_json", str(fault) or type(fault).__name__) from None
    if not isinstance(raw, dict):
        raise BadRow("not_an_object", f"the line holds a {type(raw).__name__}, not an object")
    try:
        json.dumps(raw, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow("lone_surrogate", "a text holds half a surrogate pair, which no file can store") from None
    except RecursionError:
        raise BadRow("broken_json", "nested too deeply") from None
    return raw


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadRow("duplicate_key", f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object")
    return made


def _refuse_constant(name: str) -> None:
    raise BadRow("broken_json", f"{name} is not JSON")


_OWN = ("blank_text", "empty_tests", "unknown_requirement", "unknown_turn", "duplicate_turn")


def _reason(invalid: ValidationError) -> str:
    kind = invalid.errors()[0]["type"]
    if kind in _OWN:
        return kind
    return "missing_field" if kind == "missing" else "wrong_type"


def _describe(invalid: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in error['loc'] if part != '[key]') or 'row'}: {error['msg']}"
        for error in invalid.errors()
    )
