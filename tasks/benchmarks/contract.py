"""The contract of a benchmark: a folder that offers one `Benchmark`. The engine and the pipeline know nothing else of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.episode import Episode
from schemas.errors import ConfigError, UnknownName
from schemas.problem import Problem, QuarantinedRow, SuiteKind
from schemas.run import Limits, RunSpec
from schemas.score import Score
from schemas.verdict import TestVerdict
from tasks.dialogue.programs import ProgramRunner
from tasks.dialogue.seats import Cast
from tasks.language.chat_model import ChatModel, Sampling
from tasks.language.recorded_model import RecordedAnswer
from warehouse.connect import Rows


@dataclass(frozen=True)
class Option:
    """A choice the user makes by `--option name=value`."""

    name: str
    values: tuple[str, ...]
    default: str
    affects: Literal["episode", "scoring"]
    """`episode`: part of the episode's id. `scoring`: read by test_runs and score only, re-runs no dialogue."""
    help: str
    always_in_id: bool = False
    """Only for options older than this field. Ids leave out any other option at its default, so a setting may get new ones."""


@dataclass(frozen=True)
class Setting:
    name: str
    help: str
    options: tuple[Option, ...] = ()
    needs_simulator: bool = False
    """Whether a model speaks in the counterpart's seat. Its runs are then refused without `--simulator`."""
    history: HistoryPolicy = HistoryPolicy.ON_POLICY
    """How much of the past the subject sees. The dry run estimates prompts by it."""
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """name -> text of every prompt that its cast uses. They are part of its episodes' ids, and of no other setting's."""
    simulator_prompts: tuple[str, ...] = ()
    """Names of the prompts sent to the simulator in each round, for the same estimate."""
    limits: Limits | None = None
    """Of its programs; None where the benchmark's are its own."""


@dataclass(frozen=True)
class Staged:
    """Result of staging one source: `len(problems) + len(quarantined) == n_input`, always."""

    dialogs: tuple[Dialog, ...]
    problems: tuple[Problem, ...]
    quarantined: tuple[QuarantinedRow, ...]
    n_input: int


@dataclass(frozen=True)
class CastRequest:
    """Everything that a cast may be made from. A seat knows the arguments of its constructor and nothing else."""

    setting: str
    options: Mapping[str, str]
    problem: Problem
    dialog: Dialog
    subject: ChatModel
    simulator: ChatModel | None
    sampling: Sampling
    programs: ProgramRunner


@dataclass(frozen=True)
class TestRun:
    """One program to execute: one instruction's tests on one turn's answer. `code` is None where there is no answer."""

    __test__ = False  # not a pytest class

    turn: int
    instruction_id: str
    code: str | None
    tests: tuple[str, ...]
    kind: SuiteKind = "statements"


@dataclass(frozen=True)
class Played:
    """One episode of the run with its dialog, and the verdicts on its answers."""

    dialog: Dialog
    episode: Episode
    verdicts: tuple[TestVerdict, ...]


@dataclass(frozen=True)
class ScoreRequest:
    """One sample of one problem, with all of the run's episodes of it. `options` are the run's, defaults filled in."""

    problem: Problem
    sample: int
    run_id: str
    setting: str
    options: Mapping[str, str]
    played: tuple[Played, ...]
    """In the order of the dataset's dialogs."""


@dataclass(frozen=True)
class Export:
    """A table of results for other tools, made from the published warehouse."""

    help: str
    rows: Callable[[Path, Sequence[str]], Rows]
    """(home, ids of runs, or none for the default choice) -> columns and rows."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, as `parley build` reads it."""

    run_id: str
    spec: RunSpec
    finished_at: str
    """UTC, ISO 8601."""
    episodes: Callable[[], Sequence[Episode]]
    """Reads its episodes in no particular order, episodes included that ended by a fault and were never played again."""


@dataclass(frozen=True)
class Build:
    """A folder of files made from finished runs, for others' tools and for other settings."""

    help: str
    settings: tuple[str, ...]
    """Settings whose runs it can be made from, at most one run of each."""
    write: Callable[[Sequence[FinishedRun], Path], Sequence[str]]
    """(runs, an empty folder) -> lines about the files written there. Raises UsageError: runs that do not go together."""
    owns: Callable[[str], bool]
    """Whether a file of that name may be its own. No other file is ever replaced."""


def scripted_rounds(setting: str, options: Mapping[str, str], dialog: Dialog) -> int:
    """As many rounds as the dialog has messages of the user."""
    return sum(turn.role is Role.USER for turn in dialog.turns)


@dataclass(frozen=True)
class Benchmark:
    name: str
    version: str
    """Part of every id: raise it when staging, cast or prompts change."""
    title: str
    paper: str
    dataset_versions: tuple[str, ...]
    """`sample` is always among them: the bundled records."""
    default_dataset_version: str
    settings: Mapping[str, Setting]
    metrics: tuple[str, ...]
    """In the order of the result table; the first is the headline, and the first three stand in tables of many settings."""
    limits: Limits
    packages: tuple[str, ...]
    """Distributions that test programs import: the sandbox must offer them."""
    stage: Callable[[Path, str], Staged]
    """(file or folder, dataset version) -> rows. Raises SourceUnreadable where nothing at all can be read."""
    sample: Traversable
    cast: Callable[[CastRequest], Cast]
    test_runs: Callable[[Problem, Dialog, Episode, Mapping[str, str]], Sequence[TestRun]]
    score: Callable[[ScoreRequest], Sequence[Score]]
    """Called once for each problem and sample that has episodes. Pure."""
    gold_answer: Callable[[Problem, int], str]
    """(problem, 1-based round) -> the answer of `control:gold`."""
    preload: tuple[str, ...] = ()
    """Slow imports of many programs. A sandbox that keeps a Python warm has these modules loaded."""
    marts: tuple[Traversable, ...] = ()
    """SQL files of the benchmark's own result tables, in order; line 1 of each is its grain."""
    import_recording: Callable[[Path, str], Iterator[RecordedAnswer]] | None = None
    """(folder of others' published runs, model name) -> answers."""
    recorded_data: Callable[[Path], tuple[Path, str] | None] | None = None
    """(folder of others' published runs) -> their raw data and its version, where it lies beside them."""
    fixed_rounds: bool = True
    """Whether the dialog alone decides how many rounds a finished episode has."""
    rounds: Callable[[str, Mapping[str, str], Dialog], int] = scripted_rounds
    """(setting, options, dialog) -> rounds that an episode is scored over: its greatest possible number."""
    metric_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Lowest and highest value of the metrics that are not shares in [0, 1]."""
    per_round_metrics: tuple[str, ...] = ()
    """Metrics with exactly one row for each round of each episode."""
    implications: tuple[tuple[str, float, str, float], ...] = ()
    """(metric, value, implied metric, implied value) on the same turn; the quality checks enforce it."""
    due_scores: Callable[[str, Mapping[str, str], Dialog], Iterable[tuple[int, str]]] | None = None
    """(setting, options, dialog) -> (turn, metric) of every score that an episode of the dialog must have. Takes the place of
    `per_round_metrics`; turns may lie beyond the episode's own rounds."""
    plays: Callable[[str, Dialog], bool] = lambda setting, dialog: True
    """(setting, dialog) -> whether the setting plays this dialog. A run counts and digests no other."""
    exports: Mapping[str, Export] = field(default_factory=dict[str, Export])
    """name -> table that `parley export <benchmark>-<name>` writes."""
    builds: Mapping[str, Build] = field(default_factory=dict[str, Build])
    """name -> files that `parley build <benchmark>-<name>` makes."""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    """Distribution -> module that it is imported as, where the names differ. Any distribution with that module will do."""
    demo: Traversable | None = None
    """A small night on the bundled sample, as a configuration file: `parley demo <benchmark>` runs it."""

    def setting(self, name: str) -> Setting:
        """Raises UnknownName: lists the settings."""
        if name not in self.settings:
            raise UnknownName("setting", f"{self.name}.{name}", (f"{self.name}.{s}" for s in self.settings))
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
        for name, value in given.items():
            if name not in options:
                none = "" if options else "This setting has no options"
                raise UnknownName(f"option of {self.name}.{setting}", name, options, none)
            if value not in options[name].values:
                raise ConfigError(f"option {name}={value!r}: takes one of {', '.join(options[name].values)}")
        chosen = {
            name: given.get(name, option.default)
            for name, option in options.items()
            if option.always_in_id or given.get(name, option.default) != option.default
        }
        return (
            tuple(sorted((n, v) for n, v in chosen.items() if options[n].affects == "episode")),
            tuple(sorted((n, v) for n, v in chosen.items() if options[n].affects == "scoring")),
        )

    def options_of(self, spec: RunSpec, affects: Literal["episode", "scoring"] | None = None) -> dict[str, str]:
        """Options of a run's setting with their values: all, or those of one kind. What the spec lacks is at its default."""
        given = dict(spec.episode_options + spec.scoring_options)
        known = [option for option in self.setting(spec.setting).options if affects in (None, option.affects)]
        return {option.name: given.get(option.name, option.default) for option in known}

    def limits_of(self, setting: str) -> Limits:
        """Bounds of a setting's programs."""
        return self.setting(setting).limits or self.limits
