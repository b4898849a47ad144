"""What is measured: scores of played dialogues, and which of them are due."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from schemas.dialog import Dialog, Turn
from schemas.episode import Episode
from schemas.problem import Problem
from schemas.score import Score, UnscoredReason
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.benchmarks.setting import Options

if TYPE_CHECKING:
    from tasks.language.embedding import Vector
    from tasks.metrics.registry import Metric


@dataclass(frozen=True)
class Played:
    """One episode of the run with its dialog, and the verdicts on its answers."""

    dialog: Dialog
    episode: Episode
    verdicts: tuple[TestVerdict, ...]
    judgements: tuple[JudgeVerdict, ...] = ()
    """A row for each dimension of each judgement."""
    context: tuple[Turn, ...] = ()
    """The turns before the dialog's own, which are in no episode; empty where it names no shared context."""


@dataclass(frozen=True)
class ScoreRequest:
    """One sample of one problem, with all of the run's episodes of it."""

    problem: Problem
    sample: int
    run_id: str
    setting: str
    options: Options
    played: tuple[Played, ...]
    """In the order of the dataset's dialogs."""
    vectors: "Mapping[str, Vector]" = field(default_factory=dict[str, "Vector"])
    """Text -> vector of length 1, for what `texts_to_embed` names of all requests. A blank text has none, nor one that is
    longer than the embedder takes."""

    def row(
        self,
        played: Played,
        metric: "Metric[..., Any]",
        value: float | UnscoredReason,
        *,
        turn: int = 0,
        instruction_id: str | None = None,
    ) -> Score:
        """A metric's value of one of the episodes, or why it has none. Turn 0 is the whole dialogue."""
        missing = isinstance(value, UnscoredReason)
        return Score(
            run_id=self.run_id,
            benchmark=played.episode.benchmark,
            model=played.episode.model,
            episode_id=played.episode.episode_id,
            problem_id=self.problem.problem_id,
            sample=self.sample,
            turn=turn,
            instruction_id=instruction_id,
            metric=metric.name,
            metric_version=metric.version,
            value=None if missing else value,
            unscored_reason=value if missing else None,
        )


class TextsToEmbed(Protocol):
    """Names the texts whose vectors `score` will read. Pure.

    It is asked twice: of each dialogue as it ends, without verdicts and judgements, then of all with them.
    """

    def __call__(self, request: ScoreRequest) -> Sequence[str]: ...


class MakeScores(Protocol):
    """Measures one sample of one problem; called where it has episodes. Pure."""

    def __call__(self, request: ScoreRequest) -> Sequence[Score]: ...


@dataclass(frozen=True)
class Due:
    """What an episode of a dialog must have in the end."""

    rounds: int
    """The most answers that it has, and is scored over."""
    scores: frozenset[tuple[int, str]]
    """(turn, metric) of every score, also of rounds that a fault left out; turns may lie beyond its rounds."""
    is_exact: bool = True
    """A finished episode has just so many answers, no fewer."""
    turns: tuple[int, ...] | None = None
    """Rounds of these answers, where a script gives the others; None for the first `rounds`."""

    usual: int | None = None
    """Answers of a usual dialogue, for estimates; None where all rounds are usual."""

    @property
    def answered(self) -> Sequence[int]:
        """Rounds of its answers, in order."""
        return range(1, self.rounds + 1) if self.turns is None else self.turns

    @property
    def last_turn(self) -> int:
        """The last round that the model answers; 0 without any."""
        return max(self.answered, default=0)


class FindDue(Protocol):
    """Tells what is due of a dialog's episodes."""

    def __call__(self, setting: str, options: Options, dialog: Dialog) -> Due: ...


@dataclass(frozen=True)
class Scores:
    """What is measured."""

    metrics: tuple[str, ...]
    """In the order of the result table's columns. First the headline; the first three stand in tables of many settings. A setting
    may have further ones of its own (`Setting.metrics`)."""
    score: MakeScores
    texts_to_embed: TextsToEmbed | None = None
    """Asked where the setting has an embedder."""
    due: FindDue | None = None
    """None: as many rounds as the dialog has messages of the user, and the headline metric in each."""
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Lowest and highest value of the metrics that are not shares in [0, 1]."""
    implications: tuple[tuple[str, float, str, float], ...] = ()
    """(metric, value, implied metric, implied value), on the same turn: the quality checks hold scores to them."""
