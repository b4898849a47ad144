"""The contract between a benchmark and the engine: one `Benchmark` object.

Every benchmark has five parts. `about` gives its name, `data` its problems, `settings` the ways to
run them, `programs` the tests that run on the answers, and `scores` the measurements, with the set
of scores that each episode must have. All other parts have defaults: see
`tasks.benchmarks.advanced`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from schemas.dialog import Dialog, Turn
from schemas.episode import Episode, Score, UnscoredReason, reason_of
from schemas.errors import UnknownName
from schemas.problem import Problem
from schemas.run import Limits, RunSpec
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict
from tasks.benchmarks.advanced import Construction, Judging, Play, Recordings, Resources, Results
from tasks.benchmarks.program_runs import Programs as Programs
from tasks.benchmarks.program_runs import TestRun as TestRun
from tasks.benchmarks.setting import About as About
from tasks.benchmarks.setting import Option as Option
from tasks.benchmarks.setting import Options as Options
from tasks.benchmarks.setting import Setting as Setting
from tasks.benchmarks.setting import option_values
from tasks.benchmarks.staging import Data as Data  # a benchmark imports all that it needs from here
from tasks.benchmarks.staging import Staged as Staged
from tasks.benchmarks.templates import Wording
from tasks.judging.rubric import Rubric

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

    def missing_result(
        self,
        verdict: TestVerdict | None,
        turn: int,
        resource: UnscoredReason = UnscoredReason.TOOLCHAIN_MISSING,
    ) -> UnscoredReason | None:
        """Return why tests of the answer of a turn have no result, or None if they have one.

        Args:
            verdict: Verdict of the tests. None if there is none.
            turn: Turn of the answer, from 1.
            resource: Reason if a resource is missing that the verdict does not name.
        """
        if verdict is None or verdict.outcome is Outcome.ERROR:
            return reason_of(self.episode, turn)
        if verdict.outcome is Outcome.UNSCORED:
            return _REASONS.get(verdict.reason or "", resource)
        return UnscoredReason.INFRA if verdict.outcome is Outcome.INFRA else None


_REASONS: Mapping[str, UnscoredReason] = {reason.value: reason for reason in UnscoredReason}


def missing_rating(judgement: JudgeVerdict | None) -> UnscoredReason:
    """Return why a judgement has no rating. None: the judgement itself is missing."""
    reason = None if judgement is None else judgement.unscored_reason
    return UnscoredReason.INFRA if reason is None else UnscoredReason(reason)


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


TextsToEmbed = Callable[[ScoreRequest], Sequence[str]]
"""Function that returns the texts whose vectors `score` reads. It must be pure.

It is called for each dialogue as it ends, without verdicts and judgements, and again for all
dialogues with them.
"""
MakeScores = Callable[[ScoreRequest], Sequence[Score]]
"""Function that scores one sample of one problem with at least one episode. It must be pure."""


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


FindDue = Callable[[str, Options, Dialog], Due]
"""Function (setting, options, dialog) -> the answers and scores due for the dialog's episodes."""


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


NO_PROGRAMS = Programs(test_runs=lambda problem, dialog, episode, options: ())
"""Programs of benchmarks that run no tests. Their runs need no sandbox."""


@dataclass(frozen=True)
class Benchmark:
    """Description of one benchmark, from which the pipeline runs it."""

    about: About
    data: Data
    settings: Mapping[str, Setting]
    scores: Scores
    programs: Programs = field(default_factory=lambda: NO_PROGRAMS)
    play: Play = field(default_factory=Play)
    resources: Resources = field(default_factory=Resources)
    judging: Judging | None = None
    results: Results = field(default_factory=Results)
    recordings: Recordings | None = None
    wording: Wording | None = None
    """Texts that a user may replace with `--templates`."""
    constructions: Mapping[str, Construction] = field(default_factory=dict[str, Construction])
    """Datasets made by `parley build <benchmark>-<name>` with model calls and programs, by name."""

    @property
    def name(self) -> str:
        """Return the benchmark's name in ids, tables and on the command line."""
        return self.about.name

    def setting(self, name: str) -> Setting:
        """Return a setting by name.

        Raises:
            UnknownName: The benchmark has no such setting. The message lists the settings.
        """
        if name not in self.settings:
            names = (f"{self.name}.{setting}" for setting in self.settings)
            raise UnknownName(
                "setting",
                f"{self.name}.{name}",
                names,
                "`parley list benchmarks` shows them with their options",
            )
        return self.settings[name]

    def split_options(
        self, setting: str, values: Mapping[str, str]
    ) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Return (episode options, scoring options) as they enter a run's ids, sorted by name.

        Options at their default are left out unless they have `Option.always_in_id`.

        Raises:
            UnknownName: The setting has no such option.
            ConfigError: An option does not accept its value.
        """
        options = {o.name: o for o in self.setting(setting).options}
        checked = option_values(tuple(options.values()), values, f"{self.name}.{setting}")
        chosen = {
            name: v
            for name, v in checked.items()
            if options[name].always_in_id or v != options[name].default
        }
        return (
            tuple(sorted((n, v) for n, v in chosen.items() if options[n].affects == "episode")),
            tuple(sorted((n, v) for n, v in chosen.items() if options[n].affects == "scoring")),
        )

    def new_run_options(self, setting: str, values: Mapping[str, str]) -> dict[str, str]:
        """Return the values that new runs of models use for unset options.

        Unlike `Option.default`, `Option.new_runs` does not apply to runs of earlier releases.
        """
        options = self.setting(setting).options
        if any(values.get(option.name) in option.upstream for option in options):
            return {}
        return {
            option.name: option.new_runs
            for option in options
            if option.new_runs and option.name not in values
        }

    def options_of(
        self, spec: RunSpec, affects: Literal["episode", "scoring"] | None = None
    ) -> dict[str, str]:
        """Return the setting's options of one kind, or all, with their values or defaults."""
        values = dict(spec.episode_options + spec.scoring_options)
        options = [
            option
            for option in self.setting(spec.setting).options
            if affects in (None, option.affects)
        ]
        return {option.name: values.get(option.name, option.default) for option in options}

    def prompts_of(self, setting: str, values: Mapping[str, str]) -> dict[str, str]:
        """Return the prompts that enter a run's ids.

        Prompts that only belong to options at their default are left out.

        Args:
            setting: Name of the setting.
            values: Options with their values. Absent options have their default.
        """
        chosen = self.setting(setting)
        named = {name: False for option in chosen.options for name in option.prompts}
        for option in chosen.options:
            if values.get(option.name, option.default) != option.default:
                named |= dict.fromkeys(option.prompts, True)
        return {name: text for name, text in chosen.prompts.items() if named.get(name, True)}

    def metrics_of(self, setting: str) -> tuple[str, ...]:
        """Return the metrics of a setting, in the column order of result tables."""
        return (*self.scores.metrics, *self.setting(setting).metrics)

    @property
    def all_metrics(self) -> tuple[str, ...]:
        """Return the metrics of all settings, in column order."""
        return tuple(
            dict.fromkeys(
                (
                    *self.scores.metrics,
                    *(name for s in self.settings.values() for name in s.metrics),
                )
            )
        )

    def limits_of(self, setting: str) -> Limits:
        """Return the limits of a setting's programs."""
        return self.setting(setting).limits or self.programs.limits

    def runs_programs(self, setting: str) -> bool:
        """Return True if runs of a setting need a sandbox."""
        return self.programs is not NO_PROGRAMS and self.setting(setting).runs_programs

    def rubrics(self, setting: str) -> tuple[Rubric, ...]:
        """Return the rubrics that judge a setting's dialogues, in the setting's order."""
        named = self.setting(setting).rubrics
        return (
            tuple(self.judging.rubrics[name] for name in named) if self.judging is not None else ()
        )

    def due(self, setting: str, options: Options, dialog: Dialog) -> Due:
        """Return the answers and scores that an episode of the dialog must end with.

        A dialog whose source files are missing gets no answers. Its scores exist without values.
        """
        due = self._due(setting, options, dialog)
        return replace(due, rounds=0, turns=()) if dialog.is_sourceless else due

    def _due(self, setting: str, options: Options, dialog: Dialog) -> Due:
        if self.scores.due is not None:
            return self.scores.due(setting, options, dialog)
        turns = dialog.generated_turns
        return Due(
            len(turns), frozenset((turn, self.scores.metrics[0]) for turn in turns), turns=turns
        )
