"""Scores of dialogues and the set of scores that each episode must have."""

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
    """Episode of the run with its dialog and the verdicts on its answers."""

    dialog: Dialog
    episode: Episode
    verdicts: tuple[TestVerdict, ...]
    judgements: tuple[JudgeVerdict, ...] = ()
    """Judgements, one row per dimension."""
    context: tuple[Turn, ...] = ()
    """Turns of the shared context before the dialog.

    Empty without a shared context. Episodes do not contain these turns.
    """


@dataclass(frozen=True)
class ScoreRequest:
    """Request to score one sample of one problem with all its episodes of the run."""

    problem: Problem
    sample: int
    run_id: str
    setting: str
    options: Options
    played: tuple[Played, ...]
    """Episodes in the order of the dataset's dialogs."""
    vectors: "Mapping[str, Vector]" = field(default_factory=dict[str, "Vector"])
    """Vector of length 1 of each text that `texts_to_embed` returned for any request.

    Blank texts and texts longer than the embedder's limit have no vector.
    """

    def row(
        self,
        played: Played,
        metric: "Metric[..., Any]",
        value: float | UnscoredReason,
        *,
        turn: int = 0,
        instruction_id: str | None = None,
    ) -> Score:
        """Return the score of an episode. Turn 0 means the whole dialogue.

        Args:
            played: Episode to score.
            metric: Metric of the value.
            value: Value, or the reason why there is none.
            turn: Turn of the answer, from 1, or 0.
            instruction_id: Instruction that the value belongs to.
        """
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
    """Function that returns the texts whose vectors `score` reads. It must be pure.

    It is called for each dialogue as it ends, without verdicts and judgements, and again for all
    dialogues with them.
    """

    def __call__(self, request: ScoreRequest) -> Sequence[str]: ...


class MakeScores(Protocol):
    """Function that scores one sample of one problem with at least one episode. It must be pure."""

    def __call__(self, request: ScoreRequest) -> Sequence[Score]: ...


@dataclass(frozen=True)
class Due:
    """Answers and scores that a finished episode of a dialog must have."""

    rounds: int
    """Maximum number of answers, over which the scores are computed."""
    scores: frozenset[tuple[int, str]]
    """(turn, metric) of every score, including rounds lost to a fault.

    Turns may exceed `rounds`.
    """
    is_exact: bool = True
    """True if a finished episode has exactly this number of answers."""
    turns: tuple[int, ...] | None = None
    """Rounds answered by the model if a script gives the other answers.

    None means the first `rounds`.
    """

    usual: int | None = None
    """Number of answers of a typical dialogue, for estimates. None means `rounds`."""

    @property
    def answered(self) -> Sequence[int]:
        """Return the rounds answered by the model, in order."""
        return range(1, self.rounds + 1) if self.turns is None else self.turns

    @property
    def last_turn(self) -> int:
        """Return the last round answered by the model, or 0."""
        return max(self.answered, default=0)


class FindDue(Protocol):
    """Function that returns the answers and scores due for a dialog's episodes."""

    def __call__(self, setting: str, options: Options, dialog: Dialog) -> Due: ...


@dataclass(frozen=True)
class Scores:
    """Metrics of a benchmark and the function that computes them."""

    metrics: tuple[str, ...]
    """Metrics in the column order of the result table.

    The first is the headline metric, and the first three appear in tables of several settings. A
    setting may add metrics (`Setting.metrics`).
    """
    score: MakeScores
    texts_to_embed: TextsToEmbed | None = None
    """Function that returns the texts to embed. It is called for settings with an embedder."""
    due: FindDue | None = None
    """Default: one round per user message of the dialog, with the headline metric in each."""
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    """Lowest and highest value of each metric that is not a share in [0, 1]."""
    implications: tuple[tuple[str, float, str, float], ...] = ()
    """Quality checks on one turn: (metric, value, implied metric, implied value)."""
