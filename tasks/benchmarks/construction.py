"""Datasets made by model calls and programs with `parley build`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from schemas.run import Limits, Sampling
from tasks.benchmarks.setting import Option, Options
from tasks.dialogue.tools import ProgramRunner
from tasks.judging.rubric import RatingScale, Scales
from tasks.language.chat_model import ChatModel, ChatRequest, Message

if TYPE_CHECKING:
    from tasks.benchmarks.data import Staged
    from tasks.language.embedding import TextVectors

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Role:
    """Role of one model in a construction."""

    help: str
    sampling: Sampling = field(default_factory=Sampling)
    """Sampling of the model's answers, which is part of the build's id."""


@dataclass(frozen=True)
class ConstructionRequest:
    """Inputs of a construction. Answers and verdicts in the cache are reused."""

    staged: "Staged"
    """Rows to start from. With `--limit N`, only the first N problems."""
    models: Mapping[str, ChatModel]
    """Model of each role. Equal requests are sent once, so another answer needs another seed."""
    sampling: Mapping[str, Sampling]
    options: Options
    programs: ProgramRunner
    """Runner for programs, if the construction has `runs_programs`."""
    embedder: "TextVectors | None" = None
    """Embedder, if the construction has `needs_embedder`."""
    limit: int | None = None
    """Value of `--limit`, or None."""
    resources: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Folders that the rows need, by name. The rows' digests cover their content."""

    def question(
        self,
        role: str,
        *messages: Message,
        problem_id: str = "",
        turn: int = 1,
        sample: int = 0,
        answer_schema: Mapping[str, Any] | None = None,
    ) -> ChatRequest:
        """Return a request with the role's model and sampling, and with `sample` as seed."""
        return ChatRequest(
            messages=messages,
            sampling=self.sampling[role],
            seed=sample,
            problem_id=problem_id,
            turn=turn,
            sample=sample,
            answer_schema=answer_schema,
        )


@dataclass(frozen=True)
class Review:
    """Review sheet for human raters.

    A sheet whose columns are `episode_id` (first, unique per row), `rubric`, `rater` (empty) and
    `value:DIMENSION` (empty) can be filled in and passed to `parley import ratings`.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    scales: Mapping[str, RatingScale] = field(default_factory=dict[str, RatingScale])
    """Scale of the ratings in each dimension, by the dimension's name."""

    @property
    def rubric_scales(self) -> Scales:
        """Return the scales by rubric. The sheet's rows name the rubric."""
        place = self.columns.index("rubric") if self.scales else 0
        return {str(row[place]): self.scales for row in self.rows} if self.scales else {}

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids by which ratings refer to rows. Empty if the sheet collects no ratings."""
        return (
            tuple(str(row[0]) for row in self.rows) if self.columns[:1] == ("episode_id",) else ()
        )


@dataclass(frozen=True)
class Constructed:
    """Result of a construction."""

    files: Mapping[str, str | bytes]
    """Content of each file in the benchmark's native format, by file name without folders."""
    review: Review


class Construct(Protocol):
    """Function that makes the files of a build.

    Equal data must lead to equal requests in every run, so that an interrupted build can resume
    from the cache.
    """

    async def __call__(self, request: ConstructionRequest) -> Constructed: ...


class EstimateCalls(Protocol):
    """Function that counts the calls of each role before anything is started or requested."""

    def __call__(self, *, staged: "Staged", options: Options) -> Mapping[str, int]:
        """Return the number of calls by role. Raise ConfigError if required data are missing."""
        ...


@dataclass(frozen=True)
class Construction:
    """Dataset that `parley build <benchmark>-<name>` makes from staged rows."""

    help: str
    roles: Mapping[str, Role]
    """Roles of the models.

    `--model SPEC` sets the role `model`, `--judge SPEC` the role `judge`, and `--model ROLE=SPEC`
    any role.
    """
    construct: Construct
    estimate: EstimateCalls
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Text of every prompt by name. The build's id covers them."""
    options: tuple[Option, ...] = ()
    runs_programs: bool = False
    limits: Limits | None = None
    """Limits of the construction's programs. None means the benchmark's limits."""
    needs_embedder: bool = False
    dataset_version: str | None = None
    """Dataset version to build from if the command names none. None: the benchmark's default."""
