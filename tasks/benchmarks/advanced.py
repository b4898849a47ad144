"""Optional parts of a benchmark: simulated users, resources besides the data, and judges.

A benchmark imports `Play`, `Judging`, `Resources` and their parts from here. Tables and files of
results are in `tasks.benchmarks.results`, texts that `--templates` replaces in `templates`, and
datasets built by a benchmark in `construction`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from schemas.dialog import Dialog, Turn
from schemas.episode import Episode
from schemas.problem import Problem
from schemas.verdict import TestVerdict
from tasks.benchmarks.data import Staged
from tasks.benchmarks.results import Recordings as Recordings
from tasks.benchmarks.results import Results as Results
from tasks.benchmarks.setting import CastRequest as CastRequest
from tasks.benchmarks.setting import Options
from tasks.benchmarks.setting import Play as Play
from tasks.benchmarks.setting import fenced_reference as fenced_reference
from tasks.benchmarks.setting import scripted_chat as scripted_chat
from tasks.dialogue.tools import WantedProgram
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.storage.home import Home


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


class JudgeRuns(Protocol):
    """Function that returns the judge runs for a request. It must be pure."""

    def __call__(self, request: JudgeRequest) -> Sequence[JudgeRun]: ...


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


class SelfTest(Protocol):
    """Function that returns tests which must pass in a dialog's project before any answer exists.

    The function must be pure.
    """

    def __call__(self, problem: Problem, dialog: Dialog) -> WantedProgram | None:
        """Return the tests, or None if the dialog's programs do not run in a project.

        The `code` of the returned program is ignored, because the project stays unchanged.
        """
        ...


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
