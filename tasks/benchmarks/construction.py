"""A dataset made by model calls and programs: what a benchmark says of it, and what the engine gives to it (`parley build`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from schemas.run import Limits, Sampling
from tasks.benchmarks.setting import Option, Options
from tasks.dialogue.programs import ProgramRunner
from tasks.judging.rating_scales import RatingScale, Scales
from tasks.language.chat_model import ChatModel, ChatRequest, Message

if TYPE_CHECKING:
    from tasks.benchmarks.contract import Staged
    from tasks.language.embedding import TextVectors

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Role:
    """What a model does in a construction."""

    help: str
    sampling: Sampling = field(default_factory=Sampling)
    """How its tokens are drawn: part of the build's id."""


@dataclass(frozen=True)
class ConstructionRequest:
    """Everything that a construction may use. Kept answers and verdicts are not asked for again, whoever asks."""

    staged: "Staged"
    """The rows to begin with; of `--limit N` the first N problems alone."""
    models: Mapping[str, ChatModel]
    """Role -> its model. Equal requests are sent once: for another answer to the same messages take another seed."""
    sampling: Mapping[str, Sampling]
    options: Options
    programs: ProgramRunner
    """Of a construction that `runs_programs`."""
    embedder: "TextVectors | None" = None
    """Of a construction that `needs_embedder`."""
    limit: int | None = None
    """As it was typed."""
    resources: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Folders that the rows need beside them, by name: their content is in the rows' digests."""

    def question(
        self,
        role: str,
        *messages: Message,
        problem_id: str = "",
        turn: int = 1,
        sample: int = 0,
        answer_schema: Mapping[str, Any] | None = None,
    ) -> ChatRequest:
        """A request to a role's model, drawn as the role says. Each `sample` has a seed of its own."""
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
    """A sheet for people who review what was made.

    With columns `episode_id` (first; a name of its own for each row), `rubric`, `rater` (empty) and `value:DIMENSION` (empty) the
    filled-in sheet is a file for `parley import ratings`.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    scales: Mapping[str, RatingScale] = field(default_factory=dict[str, RatingScale])
    """Scale of each dimension that is rated."""

    @property
    def rubric_scales(self) -> Scales:
        """Return the scales by rubric; the sheet's rows name the rubric."""
        place = self.columns.index("rubric") if self.scales else 0
        return {str(row[place]): self.scales for row in self.rows} if self.scales else {}

    @property
    def ids(self) -> tuple[str, ...]:
        """What ratings name the rows by; none where the sheet is only read."""
        return (
            tuple(str(row[0]) for row in self.rows) if self.columns[:1] == ("episode_id",) else ()
        )


@dataclass(frozen=True)
class Constructed:
    """What a construction ends in."""

    files: Mapping[str, str | bytes]
    """Name of a file, without folders -> what it holds, in the benchmark's native format."""
    review: Review


class Construct(Protocol):
    """Makes the files. It must ask the same of the same data in each run, so that a killed one goes on."""

    async def __call__(self, request: ConstructionRequest) -> Constructed: ...


class EstimateCalls(Protocol):
    """Counts the calls of each role, before anything is started or asked."""

    def __call__(self, *, staged: "Staged", options: Options) -> Mapping[str, int]:
        """Role -> calls. Raises ConfigError: the data lack what the construction begins with."""
        ...


@dataclass(frozen=True)
class Construction:
    """A dataset that `parley build <benchmark>-<name>` makes from staged rows."""

    help: str
    roles: Mapping[str, Role]
    """Who is asked: `model` and `judge` have options of their own, others are named by `--model ROLE=SPEC`."""
    construct: Construct
    estimate: EstimateCalls
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """name -> text of every prompt that it uses: part of the build's id."""
    options: tuple[Option, ...] = ()
    runs_programs: bool = False
    limits: Limits | None = None
    """Of its programs; None where the benchmark's are its own."""
    needs_embedder: bool = False
    dataset_version: str | None = None
    """What it begins with where no data and no version are named; None for the benchmark's default."""
