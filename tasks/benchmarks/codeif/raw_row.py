"""Validated rows of task files in upstream's format: function tasks and repository tasks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from schemas.problem import Instruction, TestSuite
from tasks.benchmarks.codeif.settings import (
    FUNCTIONALITY_EXTENSION,
    REPOSITORY_STRATEGIES,
    STRATEGIES,
    strategy_slots,
)
from tasks.benchmarks.raw_rows import RawModel, Text

OWN_REASONS = (
    *("empty_tests", "unknown_requirement", "unknown_turn", "duplicate_turn"),
    *("unsafe_path", "wrong_lines"),
)
"""Reasons of quarantine for rows, besides those of all benchmarks. The last two are of repository
rows alone."""


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


class RawRequirement(RawModel):
    """Instruction of a task: its text, and its test as one string or a list."""

    requirement: Text
    unit_test: Tests

    @property
    def suite(self) -> TestSuite:
        """Tests of the instruction."""
        return TestSuite(tests=tuple(self.unit_test))


def instructions_of(
    requirements: Mapping[str, RawRequirement], names: Sequence[str]
) -> tuple[Instruction, ...]:
    """Return the requirements that exist as instructions, in the order of `names`."""
    return tuple(
        Instruction(
            instruction_id=name,
            text=requirements[name].requirement,
            suite=requirements[name].suite,
        )
        for name in names
        if name in requirements
    )


class FunctionRow(RawModel):
    """Function task; `test` and each `unit_test` are one string or a list of strings."""

    task_id: int = Field(ge=0)
    prompt: Text
    test: Tests
    code: Text
    requirements: dict[StrategyName, RawRequirement]
    multi_turn: list[StrategyName] = Field(alias="multi-turn")

    @model_validator(mode="after")
    def _turns_have_requirements(self) -> "FunctionRow":
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


_LONGEST_FILE = 10_000_000
"""Largest line number that a row may state."""


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
RepositoryStrategy = Annotated[str, AfterValidator(strategy_validator(REPOSITORY_STRATEGIES))]
Line = Annotated[int, Field(ge=1, le=_LONGEST_FILE)]
Lines = Annotated[list[Line], Field(min_length=2, max_length=2)]


class RepositoryRequirement(RawRequirement):
    """Instruction of a repository task, with the code and the node id of its test."""

    test: Path
    """Node id of the unit test."""

    @property
    def suite(self) -> TestSuite:
        """Test of the instruction: its node id, then its text."""
        return TestSuite(tests=(self.test, *self.unit_test), kind="pytest")


class RawDependency(RawModel):
    """Names of the project that the reference code uses, by the distance of their definition."""

    intra_class: list[str] = Field(default_factory=list)
    intra_file: list[str] = Field(default_factory=list)
    cross_file: list[str] = Field(default_factory=list)


DEPENDENCIES = tuple(RawDependency.model_fields)
"""Kinds of dependencies, nearest first."""


class RepositoryRow(RawModel):
    """Task about a function or method of a project, with base tests and tested requirements."""

    namespace: Text
    project_path: Path
    completion_path: Path
    signature_position: Lines
    body_position: Lines
    dependency: RawDependency
    tests: Annotated[list[Path], Field(min_length=1)]
    prompt: Text
    code: Text
    requirements: dict[RepositoryStrategy, RepositoryRequirement]
    multi_turn: list[RepositoryStrategy] | None = Field(default=None, alias="multi-turn")

    @model_validator(mode="after")
    def _fits_together(self) -> "RepositoryRow":
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
