"""A benchmark is one `Benchmark`. The engine and the pipeline know nothing else of it.

Every benchmark has five parts, and each answers one question. `about`: what is it called? `data`: what is asked?
`settings`: in which ways? `programs`: which tests run on the answers? `scores`: what is measured?
Its other parts have defaults: see `tasks.benchmarks.advanced`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from schemas.dialog import Dialog
from schemas.episode import Episode
from schemas.errors import UnknownName
from schemas.problem import Problem
from schemas.run import Limits, RunSpec
from tasks.benchmarks.advanced import Judging, Play, Recordings, Resources, Results
from tasks.benchmarks.construction import Construction
from tasks.benchmarks.data import Data as Data  # a benchmark imports all that it needs from here
from tasks.benchmarks.data import Staged as Staged
from tasks.benchmarks.program_runs import Programs as Programs
from tasks.benchmarks.program_runs import TestRun as TestRun
from tasks.benchmarks.scores import Due as Due
from tasks.benchmarks.scores import Played as Played
from tasks.benchmarks.scores import ScoreRequest as ScoreRequest
from tasks.benchmarks.scores import Scores as Scores
from tasks.benchmarks.setting import About as About
from tasks.benchmarks.setting import Option as Option
from tasks.benchmarks.setting import Options as Options
from tasks.benchmarks.setting import Setting as Setting
from tasks.benchmarks.setting import option_values
from tasks.benchmarks.templates import Wording
from tasks.judging.rubric import Rubric


def no_programs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Options
) -> Sequence[TestRun]:
    """Nothing is run."""
    return ()


NO_PROGRAMS = Programs(test_runs=no_programs)
"""Of benchmarks that are scored otherwise. Their runs need no sandbox."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, as the pipeline sees it."""

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
