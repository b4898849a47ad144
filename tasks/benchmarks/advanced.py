"""Optional parts of a benchmark: simulated users, judges, resources, and constructed datasets.

A benchmark imports `Play`, `Judging`, `Resources`, `Construction` and their parts from here.
Resources are what rows need besides their data. A construction is a dataset that `parley build`
makes by model calls and programs. Tables and files of results are in `tasks.benchmarks.results`,
and texts that `--templates` replaces in `templates`.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from schemas.content_id import content_id
from schemas.dialog import Dialog, Turn
from schemas.episode import Episode
from schemas.problem import Problem
from schemas.run import Limits, Sampling
from schemas.verdict import TestVerdict
from tasks.benchmarks.program_runs import Source as Source
from tasks.benchmarks.program_runs import trees_below_resources as trees_below_resources
from tasks.benchmarks.results import Recordings as Recordings
from tasks.benchmarks.results import Results as Results
from tasks.benchmarks.setting import CastRequest as CastRequest
from tasks.benchmarks.setting import Option, Options
from tasks.benchmarks.setting import Play as Play
from tasks.benchmarks.setting import fenced_reference as fenced_reference
from tasks.benchmarks.setting import scripted_chat as scripted_chat
from tasks.benchmarks.staging import Staged
from tasks.dialogue.tools import ProgramRunner, WantedProgram
from tasks.judging.rubric import JudgeRun, RatingScale, Rubric, Scales
from tasks.language.chat_model import ChatModel, ChatRequest, Message
from tasks.storage.home import Home

if TYPE_CHECKING:
    from tasks.language.embedding import TextVectors

Cell = str | int | float | bool | None
"""Cell of a construction's review sheet."""


@dataclass(frozen=True)
class JudgeRequest:
    """Request for the judge runs of one rubric on one episode."""

    rubric: str
    problem: Problem
    dialog: Dialog
    episode: Episode
    options: Options
    context: tuple[Turn, ...] = ()
    """Turns of the shared context before the dialog.

    Empty without a shared context. Episodes do not contain these turns.
    """
    verdicts: Sequence[TestVerdict] = ()
    """Verdicts of the episode's tests. Empty unless the rubric reads verdicts."""


JudgeRuns = Callable[[JudgeRequest], Sequence[JudgeRun]]
"""Function that returns the judge runs for a request. It must be pure."""


@dataclass(frozen=True)
class Judging:
    """Rubrics of a benchmark and the function that applies them."""

    rubrics: Mapping[str, Rubric]
    judge_runs: JudgeRuns


class Resolve(Protocol):
    """Function that resolves the resources of staged rows.

    It reads files from the paths of `--data` and `--resource`, and stores what it builds in the
    home.
    """

    def __call__(
        self, staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        """Return the rows with the digests of all resources found.

        A row whose resource cannot be found is quarantined, or kept with a mark. No model is asked
        about a marked row.

        Args:
            staged: Rows to resolve.
            source: Raw data that the rows were read from. None if the rows come from the lake and
                may already have their digests.
            resources: Paths given by `--resource NAME=PATH`, by name.
            home: Home that stores built resources.

        Raises:
            ConfigError: A required resource is missing.
            SourceUnreadable: A resource cannot be read.
        """
        ...


SelfTest = Callable[[Problem, Dialog], WantedProgram | None]
"""Function that returns tests which must pass in a dialog's project before any answer exists.

None: the dialog's programs do not run in a project. The `code` of the returned program is ignored,
because the project stays unchanged. The function must be pure.
"""


@dataclass(frozen=True)
class Resources:
    """Resources that rows need besides their data, such as repositories, packages or images."""

    help: Mapping[str, str] = field(default_factory=dict[str, str])
    """Help text of each resource, by the NAME in `--resource NAME=PATH`.

    Ids cover the content of a resource, not its path.
    """
    resolve: Resolve | None = None
    """Function that is called before a run to resolve the resources of programs and agents."""
    names: tuple[str, ...] = ()
    """Resources that are names, such as image names, and not paths.

    `resolve` receives each as a `Path`.
    """
    self_test: SelfTest | None = None
    """Function that returns tests which show, before any request, that programs can pass."""


@dataclass(frozen=True)
class Role:
    """Role of one model in a construction."""

    help: str
    sampling: Sampling = field(default_factory=Sampling)
    """Sampling of the model's answers, which is part of the build's id."""


@dataclass(frozen=True)
class ConstructionRequest:
    """Inputs of a construction. Answers and verdicts in the cache are reused."""

    staged: Staged
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

    @classmethod
    def rated(
        cls,
        rubric: str,
        scales: Mapping[str, RatingScale],
        shown: tuple[str, ...],
        rows: Iterable[tuple[object, Sequence[Cell]]],
    ) -> Self:
        """Return the sheet on which people rate rows.

        A row's id is a digest of what raters read, so that a rating cannot be applied to other
        texts.

        Args:
            rubric: Name of the rubric.
            scales: Scale of each dimension, by name.
            shown: Columns to read.
            rows: Content of each row's digest, and its cells in the columns to read.
        """
        start = ("episode_id", "rubric", "rater", *(f"value:{name}" for name in scales))
        empty: tuple[Cell, ...] = (None,) * (1 + len(scales))
        cells = [
            (f"review-{content_id(content)}", rubric, *empty, *texts) for content, texts in rows
        ]
        return cls((*start, *shown), cells, scales)

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


Construct = Callable[[ConstructionRequest], Awaitable[Constructed]]
"""Function that makes the files of a build.

Equal data must lead to equal requests in every run, so that an interrupted build can resume from
the cache.
"""


def json_file(value: object) -> str:
    """Return the text of a build's JSON file."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def jsonl_file(rows: Iterable[object]) -> str:
    """Return the text of a build's JSONL file."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


class EstimateCalls(Protocol):
    """Function that counts the calls of each role before anything is started or requested."""

    def __call__(self, *, staged: Staged, options: Options) -> Mapping[str, int]:
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
