"""Validated row of a repository task in upstream's format (DevEval's and CodeIF-Bench's fields)."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from tasks.benchmarks.codeif.raw_row import OWN_REASONS, Tests, check_turns, strategy_validator
from tasks.benchmarks.codeif.strategies import REPOSITORY_STRATEGIES, strategy_slots
from tasks.benchmarks.raw_rows import Text, validated

_LONGEST_FILE = 10_000_000
"""Largest line number that a row may state."""
_RAW = ConfigDict(strict=True, frozen=True, extra="ignore")


def _below(name: str) -> str:
    """Check that a path, or the path of a node id, is normalised and lies below its project."""
    path_text = name.partition("::")[0]
    path = PurePosixPath(path_text)
    if (
        path.is_absolute()
        or ".." in path.parts
        or not path.parts
        or str(path) != path_text
        or "\0" in path_text
    ):
        raise PydanticCustomError(
            "unsafe_path", "{name} does not lie below its project", {"name": name}
        )
    return name


Path = Annotated[Text, AfterValidator(_below)]
StrategyName = Annotated[str, AfterValidator(strategy_validator(REPOSITORY_STRATEGIES))]
Line = Annotated[int, Field(ge=1, le=_LONGEST_FILE)]
Lines = Annotated[list[Line], Field(min_length=2, max_length=2)]


class RawRequirement(BaseModel):
    """Instruction of a repository task, with the code and the node id of its test."""

    model_config = _RAW

    requirement: Text
    unit_test: Tests
    test: Path
    """Node id of the unit test."""


class RawDependency(BaseModel):
    """Names of the project that the reference code uses, by the distance of their definition."""

    model_config = _RAW

    intra_class: list[str] = []
    intra_file: list[str] = []
    cross_file: list[str] = []


DEPENDENCIES = tuple(RawDependency.model_fields)
"""Kinds of dependencies, nearest first."""


class RawRepositoryRow(BaseModel):
    """Task about a function or method of a project, with base tests and tested requirements."""

    model_config = _RAW

    namespace: Text
    project_path: Path
    completion_path: Path
    signature_position: Lines
    body_position: Lines
    dependency: RawDependency
    tests: Annotated[list[Path], Field(min_length=1)]
    prompt: Text
    code: Text
    requirements: dict[StrategyName, RawRequirement]
    multi_turn: list[StrategyName] | None = Field(default=None, alias="multi-turn")

    @model_validator(mode="after")
    def _fits_together(self) -> "RawRepositoryRow":
        check_turns(self.multi_turn or (), self.requirements)
        for name in self.requirements:
            if name not in strategy_slots(self.level):
                message = (
                    "{name} is of tasks that need their repository's code, and the row's "
                    "dependencies are none"
                )
                raise PydanticCustomError("unknown_requirement", message, {"name": name})
        if self.signature_position[0] > self.body_position[1]:
            raise PydanticCustomError(
                "wrong_lines", "its signature begins after the end of its body"
            )
        if not self.completion_path.startswith(f"{self.project_path}/"):
            raise PydanticCustomError(
                "unsafe_path",
                "{name} does not lie below its project",
                {"name": self.completion_path},
            )
        return self

    @property
    def level(self) -> str:
        """Level by required repository code: L1 none, L2 the task's file, L3 other files."""
        if self.dependency.cross_file:
            return "L3"
        return "L2" if self.dependency.intra_class or self.dependency.intra_file else "L1"

    @property
    def n_dependencies(self) -> Mapping[str, int]:
        """Number of the project's names that the reference code uses, by kind of dependency."""
        return {kind: len(getattr(self.dependency, kind)) for kind in DEPENDENCIES}

    @property
    def file(self) -> str:
        """File that the answer changes, relative to the project."""
        return self.completion_path.removeprefix(f"{self.project_path}/")

    @property
    def name(self) -> str:
        """Name of the function, with its class if the namespace has one."""
        module = PurePosixPath(self.file).with_suffix("").parts
        module = module[:-1] if module[-1] == "__init__" else module
        parts = tuple(self.namespace.split("."))
        inside = next(
            (parts[n:] for n in range(len(parts) - 1, 0, -1) if parts[:n] == module[-n:]),
            parts[-1:],
        )
        return ".".join(inside)

    @property
    def turn_order(self) -> tuple[str, ...]:
        """Requirements in the order of their turns. Rows of L3 have no list and use L2's order."""
        if self.multi_turn is not None:
            return tuple(self.multi_turn)
        return tuple(name for name in REPOSITORY_STRATEGIES if name in self.requirements)


def parse_repository_row(raw: dict[str, Any]) -> RawRepositoryRow:
    """Validate the object of one line.

    Raises:
        BadRow: missing_field, wrong_type, blank_text, empty_tests, unknown_requirement,
            unknown_turn, duplicate_turn, unsafe_path or wrong_lines.
    """
    return validated(RawRepositoryRow, raw, (*OWN_REASONS, "unsafe_path", "wrong_lines"))
