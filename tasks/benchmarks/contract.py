"""A benchmark is a folder that offers one `Benchmark`. The engine and the pipeline know nothing else of it.

Each part answers one question. `about`: what is it called? `data`: what is asked? `settings`: in which ways? `play`: who speaks?
`programs`: which tests run? `scores`: what is measured? `results`: which tables? `recordings`: what did others publish?
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, Protocol

from schemas.dialog import Dialog, HistoryPolicy, Role
from schemas.episode import Episode
from schemas.errors import ConfigError, UnknownName
from schemas.problem import Problem, QuarantinedRow, SuiteKind
from schemas.run import Limits, RunSpec
from schemas.score import Score
from schemas.verdict import TestVerdict
from tasks.benchmarks.results import Recordings, Results
from tasks.dialogue.chat_subject import ChatSubject
from tasks.dialogue.programs import ProgramRunner
from tasks.dialogue.scripted_user import ScriptedUser
from tasks.dialogue.seats import Cast
from tasks.language.chat_model import ChatModel, Sampling

Options = Mapping[str, str]
"""Every option of the setting with its value."""


@dataclass(frozen=True)
class About:
    """What the benchmark is called."""

    name: str
    version: str
    """Part of every id: raise it when staging, cast or prompts of a setting change. A new setting, level or row is no change."""
    title: str
    paper: str


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
    """One way to play the benchmark."""

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


class Stage(Protocol):
    """Turns raw files into rows."""

    def __call__(self, source: Path, dataset_version: str) -> Staged:
        """Read a file or folder. Raises SourceUnreadable where nothing at all can be read."""
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
    plays: Callable[[str, Dialog], bool] = lambda setting, dialog: True
    """(setting, dialog) -> whether the setting has this dialog. A run stages, counts and digests no other."""
    demo: Traversable | None = None
    """A small night on the sample, for `parley demo <benchmark>`."""


@dataclass(frozen=True)
class CastRequest:
    """Everything that a cast may be made from. A seat knows the arguments of its constructor and nothing else."""

    setting: str
    options: Options
    """Those that affect episodes."""
    problem: Problem
    dialog: Dialog
    subject: ChatModel
    simulator: ChatModel | None
    sampling: Sampling
    programs: ProgramRunner


class MakeCast(Protocol):
    """Seats who speaks."""

    def __call__(self, request: CastRequest) -> Cast: ...


class GoldAnswer(Protocol):
    """Says what `control:gold` answers in a round (1-based)."""

    def __call__(self, problem: Problem, turn: int) -> str: ...


def scripted_chat(request: CastRequest) -> Cast:
    """The dialog's own messages of the user, and a chat model that sees the whole dialogue."""
    texts = tuple(turn.content or "" for turn in request.dialog.turns if turn.role is Role.USER)
    subject = ChatSubject(request.subject, request.sampling, HistoryPolicy.ON_POLICY)
    # One more than there are texts, so that the user ends the dialogue and not the limit.
    return Cast(subject=subject, counterpart=ScriptedUser(texts), max_turns=len(texts) + 1)


def fenced_reference(problem: Problem, turn: int) -> str:
    """The dataset's reference code in a Python block; the same in each round."""
    return f"```python\n{problem.reference_code}\n```"


@dataclass(frozen=True)
class Play:
    """Who speaks."""

    cast: MakeCast = scripted_chat
    gold_answer: GoldAnswer = fenced_reference


@dataclass(frozen=True)
class TestRun:
    """One program to execute: one instruction's tests on one turn's answer. `code` is None where there is no answer."""

    __test__ = False  # not a pytest class

    turn: int
    instruction_id: str
    code: str | None
    tests: tuple[str, ...]
    kind: SuiteKind = "statements"


class TestRuns(Protocol):
    """Names the programs of an episode. Pure."""

    __test__ = False  # not a pytest class

    def __call__(self, problem: Problem, dialog: Dialog, episode: Episode, options: Options) -> Sequence[TestRun]: ...


@dataclass(frozen=True)
class Programs:
    """Which tests run, and what they need."""

    test_runs: TestRuns
    limits: Limits = field(default_factory=Limits)
    packages: tuple[str, ...] = ()
    """Distributions that test programs import: the sandbox must offer them."""
    preload: tuple[str, ...] = ()
    """Modules that take long to import and that many programs import. A sandbox with a warm Python keeps them loaded."""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    """Distribution -> module that it is imported as, where the names differ. Any distribution with that module will do."""


@dataclass(frozen=True)
class Played:
    """One episode of the run with its dialog, and the verdicts on its answers."""

    dialog: Dialog
    episode: Episode
    verdicts: tuple[TestVerdict, ...]


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


class MakeScores(Protocol):
    """Measures one sample of one problem; called where it has episodes. Pure."""

    def __call__(self, request: ScoreRequest) -> Sequence[Score]: ...


@dataclass(frozen=True)
class Due:
    """What an episode of a dialog must have in the end."""

    rounds: int
    """The most rounds it is scored over."""
    scores: frozenset[tuple[int, str]]
    """(turn, metric) of every score, also of rounds that a fault left out; turns may lie beyond its rounds."""
    is_exact: bool = True
    """A finished episode has just so many rounds, no fewer."""


class FindDue(Protocol):
    """Tells what is due of a dialog's episodes."""

    def __call__(self, setting: str, options: Options, dialog: Dialog) -> Due: ...


@dataclass(frozen=True)
class Scores:
    """What is measured."""

    metrics: tuple[str, ...]
    """In the order of the result table's columns. First the headline; the first three stand in tables of many settings."""
    score: MakeScores
    due: FindDue | None = None
    """None: as many rounds as the dialog has messages of the user, and the headline metric in each."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Lowest and highest value of the metrics that are not shares in [0, 1]."""
    implications: tuple[tuple[str, float, str, float], ...] = ()
    """(metric, value, implied metric, implied value), on the same turn: the quality checks hold scores to them."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, as the pipeline sees it."""

    about: About
    data: Data
    settings: Mapping[str, Setting]
    programs: Programs
    scores: Scores
    play: Play = field(default_factory=Play)
    results: Results = field(default_factory=Results)
    recordings: Recordings | None = None

    @property
    def name(self) -> str:
        """Its name in ids, tables and on the command line."""
        return self.about.name

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
        return self.setting(setting).limits or self.programs.limits

    def due(self, setting: str, options: Options, dialog: Dialog) -> Due:
        """What an episode of the dialog must have in the end."""
        if self.scores.due is not None:
            return self.scores.due(setting, options, dialog)
        rounds = sum(turn.role is Role.USER for turn in dialog.turns)
        return Due(rounds, frozenset((turn, self.scores.metrics[0]) for turn in range(1, rounds + 1)))
