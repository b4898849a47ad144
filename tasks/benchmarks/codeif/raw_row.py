"""One row of a task file in upstream's own format, validated."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION, STRATEGIES
from tasks.benchmarks.raw_lines import Text, validated

_OWN_REASONS = ("empty_tests", "unknown_requirement", "unknown_turn", "duplicate_turn")


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


def parse_row(raw: dict[str, Any]) -> RawRow:
    """A line's object as a validated row.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, empty_tests, unknown_requirement, unknown_turn or duplicate_turn.
    """
    return validated(RawRow, raw, _OWN_REASONS)
