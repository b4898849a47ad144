"""Parts of a benchmark in one file: rows, programs and scores."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.dialog import Dialog, Role
from schemas.episode import Episode, Score, UnscoredReason, reason_of
from schemas.errors import ConfigError, SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, NO_TESTS, Problem, TestSuite
from schemas.verdict import Outcome
from tasks.benchmarks.advanced import JudgeRequest, fenced_reference
from tasks.benchmarks.contract import Due, Played, ScoreRequest, Staged, TestRun, missing_rating
from tasks.benchmarks.one_file.items import MOST_ROUNDS
from tasks.benchmarks.one_file.items import Item as Item  # a benchmark imports these from here
from tasks.benchmarks.one_file.items import Repository as Repository
from tasks.benchmarks.program_runs import base_program, patch_run
from tasks.benchmarks.raw_rows import SUFFIXES, BadRow, read_lines
from tasks.benchmarks.setting import Options
from tasks.benchmarks.staging import RawRow, Staging, dialog_of, question
from tasks.judging.rubric import JudgeRun
from tasks.language.chat_model import Message
from tasks.metrics.code_rules import unit_tests
from tasks.metrics.registry import Metric, metric
from tasks.metrics.repository_dialogue import resolved
from tasks.storage.home import Home

CHAT = "chat"
SETTING, METRIC = "setting", "metric"
"""Labels of a dialog: its only setting, and the metric of its last answer."""
Judge = Callable[[str, str, str], str]
"""Function that returns the judge's prompt for (user's messages, last answer, reference)."""


class Rating(Frozen):
    """Judge's rating of an answer, and the reason for it."""

    reason: str
    rating: int = Field(ge=1, le=5)


@metric("judged_rating", title="rating", judged=True)
def judged_rating(rating: float) -> float:
    """Return the judge's rating of the last answer, from 1 to 5, as a share.

    Returns:
        In [0, 1]: 0 for a rating of 1, 1 for 5.

    Source: ours, for benchmarks in one file.
    """
    return (rating - 1) / 4


@dataclass(frozen=True)
class OneFile:
    """Parts of a benchmark that its file determines."""

    name: str
    settings: Mapping[str, str]
    make: Callable[[dict[str, Any]], Item]
    metric: Metric[..., Any] | None
    judge: Judge | None
    has_tests: bool
    agentic: bool

    def stage(self, source: Path, dataset_version: str) -> Staged:
        """Stage a JSONL file, or all such files of a folder."""
        staging = Staging(self.name, dataset_version)
        staging.add_source(source, _files, self._make_rows)
        return staging.staged()

    def resolve(
        self, staged: Staged, source: Path | None, resources: Mapping[str, Path], home: Home
    ) -> Staged:
        """Store the repositories of all tasks in the home.

        Rows from the lake already have the digests of their repositories.
        """
        repositories: dict[str, Repository | None] = {}
        for path in _files(source) if source is not None else ():
            for line in read_lines(path):
                with suppress(BadRow):
                    item = self._item(line.fields(), f"{path.name}:{line.number}")
                    repositories.setdefault(item.id, item.repository)

        def resolved(problem: Problem) -> Problem:
            assert problem.repo is not None
            repository = repositories.get(problem.problem_id)
            if repository is None and not problem.repo.tree:
                raise ConfigError(
                    f"task {problem.problem_id}: the files of its repository are not stored. "
                    "Name the data with --data"
                )
            return (
                problem.model_copy(update={"repo": repository.stored(problem.repo, home)})
                if repository
                else problem
            )

        return replace(staged, problems=map(resolved, staged.problems))

    def _item(self, row: dict[str, Any], place: str) -> Item:
        """Return the item of a row. Raise BadRow if the row cannot be staged."""
        try:
            item = self.make(row)
        except KeyError as fault:
            raise BadRow("missing_field", f"the row has no field {fault}") from None
        except (TypeError, ValueError, AttributeError, IndexError) as fault:
            if isinstance(fault, BadRow):
                raise
            raise BadRow("wrong_type", f"{type(fault).__name__}: {fault}") from None
        except Exception as fault:
            raise _own_fault(self.make, f"the row {place}", fault) from fault
        if not isinstance(item, Item):
            raise _own_fault(
                self.make,
                f"the row {place}",
                TypeError(f"it returned {item!r:.60} instead of an Item"),
            )
        item.require(self.agentic, self.has_tests, self.metric is not None)
        return item

    def _make_rows(self, row: RawRow) -> tuple[Problem, list[Dialog]]:
        item = self._item(row.fields, f"{row.file}:{row.line}")
        messages = item.by_setting(tuple(self.settings))
        reference = item.repository.diff if item.repository else item.reference
        parts = [
            row.fields,
            {name: list(texts) for name, texts in messages.items()},
            list(item.tests),
            reference,
        ]
        kind = "patch" if item.repository else "statements"
        first = next(iter(messages.values()))[0]
        suite = TestSuite(tests=tuple(item.tests), kind=kind) if item.tests else NO_TESTS
        problem = row.problem(
            item.id,
            first,
            suite,
            reference,
            content_id([*parts, *([asdict(item.repository)] if item.repository else [])]),
            level=item.level,
            repo=item.repository.snapshot(item.id, item.tests) if item.repository else None,
        )
        return problem, [
            self._dialog(problem, setting, messages[setting]) for setting in self.settings
        ]

    def _dialog(self, problem: Problem, setting: str, texts: Sequence[str]) -> Dialog:
        return dialog_of(
            problem,
            (turn for n, text in enumerate(texts, 1) for turn in question(n, text)),
            ((SETTING, setting), (METRIC, self._metric_of(problem).name)),
            f"{problem.problem_id}/{setting}",
            content_id([problem.row_digest, setting, list(texts)]),
        )

    def _metric_of(self, problem: Problem) -> Metric[..., Any]:
        if self.agentic:
            return resolved
        return (
            unit_tests
            if self.metric is None or problem.instructions[0].suite != NO_TESTS
            else self.metric
        )

    def plays(self, setting: str, dialog: Dialog) -> bool:
        """Return True if the dialog belongs to the setting."""
        return dict(dialog.labels)[SETTING] == setting

    def gold_answer(self, problem: Problem, turn: int) -> str | None:
        """Return the reference: a program if tests run it, a diff for a repository, else a text."""
        is_program = (
            problem.instructions[0].suite.kind == "statements"
            and problem.instructions[0].suite != NO_TESTS
        )
        return fenced_reference(problem, turn) if is_program else problem.reference_code or None

    def due(self, setting: str, options: Options, dialog: Dialog) -> Due:
        """Return the expected answers and the single score of the last one.

        The number of an agent's rounds is not fixed in advance.
        """
        if self.agentic:
            return Due(
                MOST_ROUNDS,
                frozenset({(0, resolved.name)}),
                is_exact=False,
                usual=len(dialog.generated_turns),
            )
        turns = dialog.generated_turns
        return Due(len(turns), frozenset({(turns[-1], dict(dialog.labels)[METRIC])}), turns=turns)

    def test_runs(
        self, problem: Problem, dialog: Dialog, episode: Episode, options: Options
    ) -> Sequence[TestRun]:
        """Return the tests of the last answer's program. Empty if the task has no tests."""
        suite, turn = problem.instructions[0].suite, dialog.generated_turns[-1]
        if self.agentic:
            return (patch_run(problem, episode, {BASE_INSTRUCTION: suite.tests}),)
        answer = episode.answer(turn)
        if suite == NO_TESTS:
            return ()
        program = None if answer is None else base_program(problem, answer, options)
        reference = problem.reference_code or None
        return (TestRun.of(turn, BASE_INSTRUCTION, program, suite.tests, reference=reference),)

    def judge_runs(self, request: JudgeRequest) -> Sequence[JudgeRun]:
        """Return the judge run of the last answer."""
        turn = request.dialog.generated_turns[-1]
        answer = request.episode.answer(turn)
        if answer is None or self.judge is None:
            return ()
        question = "\n\n".join(t.content or "" for t in request.dialog.turns if t.role is Role.USER)
        try:
            prompt = self.judge(question, answer, request.problem.reference_code)
        except Exception as fault:
            raise _own_fault(
                self.judge, f"the answer to {request.problem.problem_id}", fault
            ) from fault
        return (JudgeRun(turn, request.rubric, (Message(Role.USER, prompt),)),)

    def score(self, request: ScoreRequest) -> Sequence[Score]:
        """Score the last answer of each dialogue, or the files that an agent left."""
        chosen = self._metric_of(request.problem)
        return [
            request.row(
                played, chosen, self._value(request, played), turn=self._scored_turn(played)
            )
            for played in request.played
        ]

    def _scored_turn(self, played: Played) -> int:
        return 0 if self.agentic else played.dialog.generated_turns[-1]

    def _value(self, request: ScoreRequest, played: Played) -> float | UnscoredReason:
        chosen, turn = self._metric_of(request.problem), max(self._scored_turn(played), 1)
        missing, answer = reason_of(played.episode, turn), played.episode.answer(turn)
        if chosen in (unit_tests, resolved):
            for verdict in played.verdicts:
                if verdict.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT):
                    has_passed = verdict.outcome is Outcome.PASSED
                    return (
                        resolved(has_passed, True)
                        if self.agentic
                        else unit_tests(int(has_passed), 1)
                    )
            return missing
        if chosen is judged_rating:
            for judgement in played.judgements:
                return (
                    judged_rating(judgement.value)
                    if judgement.value is not None
                    else missing_rating(judgement)
                )
            return missing
        if answer is None:
            return missing
        try:
            value = chosen(answer, request.problem.reference_code)
            return UnscoredReason.UNDEFINED if value is None else float(value)
        except Exception as fault:
            raise _own_fault(
                chosen.function, f"the answer to {request.problem.problem_id}", fault
            ) from fault


def _files(source: Path) -> Sequence[Path]:
    files = (
        sorted(path for path in source.glob("*") if path.name.endswith(SUFFIXES))
        if source.is_dir()
        else [source]
    )
    if not files or not files[0].is_file():
        raise SourceUnreadable(
            f"{source} is not a {' or '.join(SUFFIXES)} file and contains none. "
            "Name the data with --data"
        )
    return files


def _own_fault(function: Callable[..., Any], what: str, fault: Exception) -> ConfigError:
    """Return the error for a function of the benchmark's file that failed on `what`."""
    code = function.__code__
    lines = [
        frame.lineno
        for frame in extract_tb(fault.__traceback__)
        if frame.filename == code.co_filename
    ]
    place = f"{code.co_filename}:{lines[-1] if lines else code.co_firstlineno}"
    return ConfigError(
        f"{place}: {code.co_name} failed on {what}: {type(fault).__name__}: {fault}. "
        "Fix the function"
    )
