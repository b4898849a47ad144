"""Validated row of a task file in upstream's format."""

from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION, STRATEGIES
from tasks.benchmarks.raw_rows import Text, validated

OWN_REASONS = ("empty_tests", "unknown_requirement", "unknown_turn", "duplicate_turn")
"""Reasons of quarantine for function and repository rows, besides those of all benchmarks."""


def _as_list(tests: Any) -> Any:
    return [tests] if isinstance(tests, str) else tests


def _some_tests(tests: list[str]) -> list[str]:
    if not tests or not all(test.strip() for test in tests):
        raise PydanticCustomError("empty_tests", "no tests, or a blank one among them")
    return tests


def strategy_validator(names: Sequence[str]) -> Callable[[str], str]:
    """Return a pydantic validator that accepts only these names of strategies."""

    def validate(name: str) -> str:
        if name not in names:
            names_text = ", ".join(names)
            raise PydanticCustomError(
                "unknown_requirement", "unknown requirement; known: {known}", {"known": names_text}
            )
        return name

    return validate


def check_turns(turns: Sequence[str], requirements: Collection[str]) -> None:
    """Check that each turn names one of the requirements, and that no two turns name the same.

    Raises:
        PydanticCustomError: unknown_turn or duplicate_turn.
    """
    for name in turns:
        if name not in requirements:
            message = "multi-turn names {name}, which the row's requirements lack"
            raise PydanticCustomError("unknown_turn", message, {"name": name})
        if turns.count(name) > 1:
            raise PydanticCustomError(
                "duplicate_turn", "multi-turn names {name} more than once", {"name": name}
            )


Tests = Annotated[list[str], BeforeValidator(_as_list), AfterValidator(_some_tests)]
StrategyName = Annotated[str, AfterValidator(strategy_validator(STRATEGIES))]
_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


class RawRequirement(BaseModel):
    """Instruction of a task: its text, and its test as one string or a list."""

    model_config = _RAW

    requirement: Text
    unit_test: Tests


class RawRow(BaseModel):
    """Function task; `test` and each `unit_test` are one string or a list of strings."""

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
        """Return the requirements in the order of their turns.

        The published experiments on v0 end with Functionality Extension if the task has it, but
        most of v0's lists leave it out.
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
    """Validate the object of one line.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, empty_tests, unknown_requirement,
            unknown_turn or duplicate_turn.
    """
    return validated(RawRow, raw, OWN_REASONS)
