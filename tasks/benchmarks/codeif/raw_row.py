"""One row of a task file in upstream's own format, validated."""

from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION, STRATEGIES
from tasks.benchmarks.raw_lines import Text, validated

OWN_REASONS = ("empty_tests", "unknown_requirement", "unknown_turn", "duplicate_turn")
"""Reasons of quarantine that rows of functions and of repositories share, beside those of any row."""


def _as_list(tests: Any) -> Any:
    return [tests] if isinstance(tests, str) else tests


def _some_tests(tests: list[str]) -> list[str]:
    if not tests or not all(test.strip() for test in tests):
        raise PydanticCustomError("empty_tests", "no tests, or a blank one among them")
    return tests


def known_strategy(names: Sequence[str]) -> Callable[[str], str]:
    """A validator that takes these names alone."""

    def known(name: str) -> str:
        if name not in names:
            listed = ", ".join(names)
            raise PydanticCustomError(
                "unknown_requirement", "unknown requirement; known: {known}", {"known": listed}
            )
        return name

    return known


def check_turns(turns: Sequence[str], requirements: Collection[str]) -> None:
    """Raise unless each turn gives one of the requirements, which no other turn gives.

    Raises:
        PydanticCustomError: unknown_turn or duplicate_turn.
    """
    for name in turns:
        if name not in requirements:
            said = "multi-turn names {name}, which the row's requirements lack"
            raise PydanticCustomError("unknown_turn", said, {"name": name})
        if turns.count(name) > 1:
            raise PydanticCustomError(
                "duplicate_turn", "multi-turn names {name} more than once", {"name": name}
            )


Tests = Annotated[list[str], BeforeValidator(_as_list), AfterValidator(_some_tests)]
StrategyName = Annotated[str, AfterValidator(known_strategy(STRATEGIES))]
_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


class RawRequirement(BaseModel):
    """One instruction of a task: its text, and its test as one string or a list."""

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
        check_turns(self.multi_turn, self.requirements)
        return self

    def turn_order(self, dataset_version: str) -> tuple[str, ...]:
        """Requirements in the order they are given.

        The published experiments on v0 end with Functionality Extension wherever the task has it; v0's lists mostly leave it out.
        """
        order = tuple(self.multi_turn)
        if (
            dataset_version == "v0"
            and FUNCTIONALITY_EXTENSION in self.requirements
            and FUNCTIONALITY_EXTENSION not in order
        ):
            return (*order, FUNCTIONALITY_EXTENSION)
        return order


def parse_row(raw: dict[str, Any]) -> RawRow:
    """A line's object as a validated row.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, empty_tests, unknown_requirement, unknown_turn or duplicate_turn.
    """
    return validated(RawRow, raw, OWN_REASONS)
