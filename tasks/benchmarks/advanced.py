"""Further parts of a benchmark, each for what some benchmarks need: another user than a script, files beside the data, judges.

A benchmark imports `Play`, `Judging`, `Resources` and their parts from here. Tables and files of results are in
`tasks.benchmarks.results`, texts that a user may replace in `templates`, datasets that a benchmark makes in `construction`.
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
from tasks.benchmarks.play import CastRequest as CastRequest
from tasks.benchmarks.play import Play as Play
from tasks.benchmarks.play import fenced_reference as fenced_reference
from tasks.benchmarks.play import scripted_chat as scripted_chat
from tasks.benchmarks.results import Recordings as Recordings
from tasks.benchmarks.results import Results as Results
from tasks.benchmarks.setting import Options
from tasks.dialogue.programs import WantedProgram
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.storage.home import Home


@dataclass(frozen=True)
class JudgeRequest:
    """One episode and one rubric, with all that the rubric's judgements may be made from."""

    rubric: str
    problem: Problem
    dialog: Dialog
    episode: Episode
    options: Options
    context: tuple[Turn, ...] = ()
    """The turns before the dialog's own, which are in no episode; empty where it names no shared context."""
    verdicts: Sequence[TestVerdict] = ()
    """Empty unless the rubric reads verdicts."""


class JudgeRuns(Protocol):
    """Names the judgements that a request asks for. Pure."""

    def __call__(self, request: JudgeRequest) -> Sequence[JudgeRun]: ...


@dataclass(frozen=True)
class Judging:
    """What judges rate."""

    rubrics: Mapping[str, Rubric]
    judge_runs: JudgeRuns


class Resolve(Protocol):
    """Finds what staged rows need beside them. Files are read where a user has them; what must be built is stored in the home."""

    def __call__(
        self, staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        """Return the rows with digests of all that was found. Rows without a place are quarantined, or missing and not asked.

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
class Resources:
    """What rows need beside them: repositories, packages, images."""

    help: Mapping[str, str] = field(default_factory=dict[str, str])
    """name -> help of what a user names beside the data by `--resource NAME=PATH`. Its place is in no id, its content is."""
    resolve: Resolve | None = None
    """Asked before a run; a run's programs and agents need what it brings."""
    names: tuple[str, ...] = ()
    """Those resources that are names rather than files or folders: of images, say. `resolve` is given the path of such a text."""
    self_test: SelfTest | None = None
    """Tests that show, before any request, that a dialog's programs can pass in its tree."""
