"""A benchmark is a folder that offers one `Benchmark`. The engine and the pipeline know nothing else of it.

Each part answers one question. `about`: what is it called? `data`: what is asked? `settings`: in which ways? `play`: who speaks?
`programs`: which tests run? `judging`: what do judges rate? `scores`: what is measured?
`results`: which tables? `recordings`: what did others publish? `constructions`: which datasets does it make?
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, Protocol

from schemas.dialog import Context, Dialog, Turn, dataset_digest
from schemas.episode import Episode
from schemas.errors import UnknownName
from schemas.lake.packed_rows import PackedRows
from schemas.problem import Problem, QuarantinedRow
from schemas.run import Limits, RunSpec
from schemas.verdict import TestVerdict
from tasks.benchmarks.construction import Construction
from tasks.benchmarks.grade_routes import GradeRoutes
from tasks.benchmarks.play import (
    CastRequest as CastRequest,
)  # a benchmark imports all that it needs from here
from tasks.benchmarks.play import Play
from tasks.benchmarks.play import fenced_reference as fenced_reference
from tasks.benchmarks.play import scripted_chat as scripted_chat
from tasks.benchmarks.program_runs import Programs
from tasks.benchmarks.program_runs import (
    TestRun as TestRun,
)  # part of the contract, as the next two
from tasks.benchmarks.program_runs import TestRuns as TestRuns
from tasks.benchmarks.program_runs import Tree as Tree
from tasks.benchmarks.results import Recordings, Results
from tasks.benchmarks.scores import Due, Scores
from tasks.benchmarks.scores import FindDue as FindDue
from tasks.benchmarks.scores import MakeScores as MakeScores
from tasks.benchmarks.scores import Played as Played
from tasks.benchmarks.scores import ScoreRequest as ScoreRequest
from tasks.benchmarks.scores import TextsToEmbed as TextsToEmbed
from tasks.benchmarks.setting import About, Options, Setting, option_values
from tasks.benchmarks.templates import Wording
from tasks.dialogue.programs import WantedProgram
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.storage.home import Home


@dataclass(frozen=True, init=False)
class Staged:
    """Result of staging one source: `len(problems) + len(quarantined) == n_input`, always. Its rows are kept packed."""

    dialogs: PackedRows[Dialog]
    problems: PackedRows[Problem]
    quarantined: tuple[QuarantinedRow, ...]
    n_input: int
    contexts: tuple[Context, ...] = ()
    """Long conversations before the dialogs, each once (`Dialog.context_id`); none where they were read from the lake."""

    def __init__(
        self,
        dialogs: Iterable[Dialog],
        problems: Iterable[Problem],
        quarantined: tuple[QuarantinedRow, ...],
        n_input: int,
        contexts: tuple[Context, ...] = (),
    ) -> None:
        rows = {
            "dialogs": PackedRows.of("dialogs", dialogs),
            "problems": PackedRows.of("problems", problems),
        }
        for name, value in {
            **rows,
            "quarantined": quarantined,
            "n_input": n_input,
            "contexts": contexts,
        }.items():
            object.__setattr__(self, name, value)

    @cached_property
    def digest(self) -> str:
        """Digest over the rows of all dialogs, and what their programs run in: the name of their part in the lake."""
        return dataset_digest(self.dialogs)


class Stage(Protocol):
    """Turns raw files into rows."""

    def __call__(self, source: Path, dataset_version: str) -> Staged:
        """Read a file or folder. Raises SourceUnreadable where nothing at all can be read."""
        ...


class Plays(Protocol):
    """Tells which dialogs a setting has. A run stages, counts and digests no other."""

    def __call__(self, setting: str, dialog: Dialog) -> bool: ...


def plays_all(setting: str, dialog: Dialog) -> bool:
    """Every setting has every dialog."""
    return True


class Chooses(Protocol):
    """Tells which problems a run asks, by its options. Its dialogues are those of a run that asks all."""

    def __call__(self, options: Options, dialogs: Sequence[Dialog]) -> Collection[str]: ...


class Furnish(Protocol):
    """Finds what staged rows need beside them. Files are read where a user has them; what must be built is kept in the home."""

    def __call__(
        self, staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        """The rows with digests of all that was found. Rows without a place are quarantined, or told as missing and not asked.

        Args:
            source: where the rows were read; None where they were staged before, and may have all that they need.

        Raises:
            ConfigError: a resource is missing that rows need.
            SourceUnreadable: a resource cannot be read.
        """
        ...


class SelfTest(Protocol):
    """Names the tests that a dialog's tree passes before an answer is in it. Pure."""

    def __call__(self, problem: Problem, dialog: Dialog) -> WantedProgram | None:
        """Return the program, whose code is unused; None where the dialog's programs run in no tree."""
        ...


@dataclass(frozen=True)
class Data:
    """What is asked, and where it lies."""

    stage: Stage
    sample: Traversable
    """The bundled records, in the native format."""
    versions: tuple[str, ...] = ("sample",)
    """`sample` is always among them."""
    default_version: str = "sample"
    bundled: Mapping[str, Traversable] = field(default_factory=dict[str, Traversable])
    """Of other versions that come with the benchmark: the folder of each."""
    plays: Plays = plays_all
    chooses: Chooses | None = None
    resources: Mapping[str, str] = field(default_factory=dict[str, str])
    """name -> help of what a user names beside the data by `--resource NAME=PATH`. Its place is in no id, its content is."""
    names: tuple[str, ...] = ()
    """Those resources that are names rather than files or folders: of images, say. `furnish` is given the path of such a text."""
    furnish: Furnish | None = None
    """Asked before a run; a run's programs and agents need what it brings."""
    self_test: SelfTest | None = None
    """Tests that show, before any request, that a dialog's programs can pass in its tree."""
    edition: str = ""
    """Digest of the user's templates by which `stage` words its questions; empty where none do."""
    demo: Traversable | None = None
    """A small night on the sample, for `parley demo <benchmark>`."""
    public: Traversable | None = None
    """Declaration of its public datasets, a YAML file; see `public_data.PublicDataset`."""
    grade_routes: GradeRoutes | None = None
    """Lists the ways in which a dataset's rows are graded, for `parley data show NAME --routes`."""


def no_programs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Options
) -> Sequence[TestRun]:
    """Nothing is run."""
    return ()


NO_PROGRAMS = Programs(test_runs=no_programs)
"""Of benchmarks that are scored otherwise. Their runs need no sandbox."""


class JudgeRuns(Protocol):
    """Names the judgements of an episode. Pure."""

    def __call__(
        self,
        *,
        problem: Problem,
        dialog: Dialog,
        context: tuple[Turn, ...],
        episode: Episode,
        options: Options,
        verdicts: Sequence[TestVerdict],
        rubric: str,
    ) -> Sequence[JudgeRun]:
        """Those of one rubric.

        Args:
            context: the turns before the dialog's own, which are in no episode; empty where it names no shared context.
            verdicts: empty unless the rubric reads verdicts.
        """
        ...


@dataclass(frozen=True)
class Judging:
    """What judges rate."""

    rubrics: Mapping[str, Rubric]
    judge_runs: JudgeRuns


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, as the pipeline sees it."""

    about: About
    data: Data
    settings: Mapping[str, Setting]
    scores: Scores
    programs: Programs = field(default_factory=lambda: NO_PROGRAMS)
    play: Play = field(default_factory=Play)
    judging: Judging | None = None
    results: Results = field(default_factory=Results)
    recordings: Recordings | None = None
    wording: Wording | None = None
    """Texts that a user may replace by `--templates`."""
    constructions: Mapping[str, Construction] = field(default_factory=dict[str, Construction])
    """name -> dataset that `parley build <benchmark>-<name>` makes by model calls and programs."""

    @property
    def name(self) -> str:
        """Its name in ids, tables and on the command line."""
        return self.about.name

    def setting(self, name: str) -> Setting:
        """Raises UnknownName: lists the settings."""
        if name not in self.settings:
            known = (f"{self.name}.{setting}" for setting in self.settings)
            raise UnknownName(
                "setting",
                f"{self.name}.{name}",
                known,
                "`parley list benchmarks` shows them with their options",
            )
        return self.settings[name]

    def split_options(
        self, setting: str, given: Mapping[str, str]
    ) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Options as a run's ids hold them: (episode options, scoring options), sorted by name. See `Option.always_in_id`.

        Raises:
            UnknownName: an option nobody knows.
            ConfigError: a value that the option does not take.
        """
        options = {o.name: o for o in self.setting(setting).options}
        values = option_values(tuple(options.values()), given, f"{self.name}.{setting}")
        chosen = {
            name: v
            for name, v in values.items()
            if options[name].always_in_id or v != options[name].default
        }
        return (
            tuple(sorted((n, v) for n, v in chosen.items() if options[n].affects == "episode")),
            tuple(sorted((n, v) for n, v in chosen.items() if options[n].affects == "scoring")),
        )

    def new_run_options(self, setting: str, given: Mapping[str, str]) -> dict[str, str]:
        """Return the options that a new run of a model that is asked has besides those given (see `Option.new_runs`)."""
        options = self.setting(setting).options
        if any(given.get(option.name) in option.upstream for option in options):
            return {}
        return {
            option.name: option.new_runs
            for option in options
            if option.new_runs and option.name not in given
        }

    def options_of(
        self, spec: RunSpec, affects: Literal["episode", "scoring"] | None = None
    ) -> dict[str, str]:
        """Options of a run's setting with their values: all, or those of one kind. Others are at their default."""
        given = dict(spec.episode_options + spec.scoring_options)
        known = [
            option
            for option in self.setting(spec.setting).options
            if affects in (None, option.affects)
        ]
        return {option.name: given.get(option.name, option.default) for option in known}

    def prompts_of(self, setting: str, given: Mapping[str, str]) -> dict[str, str]:
        """Name -> text of the prompts that a run's ids hold: all of the setting but those of options at their default.

        Args:
            given: options with their values; others are at their default.
        """
        chosen = self.setting(setting)
        named = {name: False for option in chosen.options for name in option.prompts}
        for option in chosen.options:
            if given.get(option.name, option.default) != option.default:
                named |= dict.fromkeys(option.prompts, True)
        return {name: text for name, text in chosen.prompts.items() if named.get(name, True)}

    def metrics_of(self, setting: str) -> tuple[str, ...]:
        """Metrics of a setting's scores, in the order of a result table's columns."""
        return (*self.scores.metrics, *self.setting(setting).metrics)

    @property
    def all_metrics(self) -> tuple[str, ...]:
        """Metrics of all settings, in that order."""
        return tuple(
            dict.fromkeys(
                (
                    *self.scores.metrics,
                    *(name for s in self.settings.values() for name in s.metrics),
                )
            )
        )

    def limits_of(self, setting: str) -> Limits:
        """Bounds of a setting's programs."""
        return self.setting(setting).limits or self.programs.limits

    def runs_programs(self, setting: str) -> bool:
        """Whether a setting's runs need a sandbox."""
        return self.programs is not NO_PROGRAMS and self.setting(setting).runs_programs

    def rubrics(self, setting: str) -> tuple[Rubric, ...]:
        """Rubrics that judge a setting's dialogues, in the setting's order."""
        named = self.setting(setting).rubrics
        return (
            tuple(self.judging.rubrics[name] for name in named) if self.judging is not None else ()
        )

    def due(self, setting: str, options: Options, dialog: Dialog) -> Due:
        """What an episode of the dialog must have in the end. One that is not asked has its scores, without values."""
        due = self._due(setting, options, dialog)
        return replace(due, rounds=0, turns=()) if dialog.is_sourceless else due

    def _due(self, setting: str, options: Options, dialog: Dialog) -> Due:
        if self.scores.due is not None:
            return self.scores.due(setting=setting, options=options, dialog=dialog)
        turns = dialog.generated_turns
        return Due(
            len(turns), frozenset((turn, self.scores.metrics[0]) for turn in turns), turns=turns
        )
