"""A benchmark in one file: a function makes an `Item` of each row of a JSONL file. `parley run path/to/sums.py` runs it.

The name of the file is the benchmark's name, and `sums.jsonl` beside it its data unless `--data` names another file:

    @benchmark("sums")
    def SUMS(row):
        return Item(row["id"], [row["question"]], tests=row["tests"], reference=row["solution"])

The program of the last answer runs the tests (metric `unit_tests`). A task without tests is scored by `metric(answer,
reference)`, or by a judge.

Benchmarks with simulated users, feedback or repositories are written against `tasks.benchmarks.contract`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode
from schemas.errors import SourceUnreadable
from schemas.problem import BASE_INSTRUCTION, NO_TESTS, Instruction, Problem, TestSuite
from schemas.score import Score, UnscoredReason, reason_of
from schemas.verdict import Outcome
from tasks.benchmarks.advanced import JudgeRequest, Judging, Play
from tasks.benchmarks.contract import NO_PROGRAMS, Benchmark, Data, Due, Programs, ScoreRequest, Scores, Staged, TestRun
from tasks.benchmarks.extraction import extraction_option, python_program
from tasks.benchmarks.play import fenced_reference
from tasks.benchmarks.raw_lines import SUFFIXES, BadRow, Line, parse_object, read_lines, relative_name
from tasks.benchmarks.results import Results
from tasks.benchmarks.setting import About, Options, Setting
from tasks.benchmarks.staging import Staging
from tasks.judging.rubric import JudgeRun, Rubric
from tasks.language.chat_model import Message
from tasks.metrics.registry import Metric, metric
from tasks.metrics.unit_tested_code import unit_tests

CHAT = "chat"
SETTING, METRIC = "setting", "metric"
"""Labels of a dialog: the one setting that plays it, and the metric of its last answer."""
Judge = Callable[[str, str, str], str]
"""Makes the judge's prompt of the user's messages, the last answer and the reference."""


class Rating(Frozen):
    """Judge's rating of an answer, and the reason for it."""

    reason: str
    rating: int = Field(ge=1, le=5)


@metric("judged_rating", title="rating", judged=True)
def judged_rating(rating: float) -> float:
    """Judge's rating of the last answer, 1 to 5, as a share.

    Returns:
        In [0, 1]: 0 for a rating of 1, 1 for 5.

    Source: ours, for benchmarks in one file.
    """
    return (rating - 1) / 4


@dataclass(frozen=True)
class Item:
    """One task.

    Args:
        id: unique in the file.
        messages: what the user says, message by message; setting -> messages where a benchmark has several settings.
        tests: Python statements that the program of the last answer must pass.
        reference: what a good last answer holds: a program, where there are tests. `control:gold` gives it.
        level: group of tasks in result tables.
    """

    id: str
    messages: Sequence[str] | Mapping[str, Sequence[str]]
    tests: Sequence[str] = ()
    reference: str = ""
    level: str = "all"

    def by_setting(self, settings: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return setting -> messages. Raises BadRow where a setting has none."""
        found = self.messages if isinstance(self.messages, Mapping) else dict.fromkeys(settings, self.messages)
        for setting in settings:
            texts = found.get(setting, ())
            if isinstance(texts, str) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
                raise BadRow("wrong_type", f"setting {setting} needs a list of messages that are not blank, not {texts!r}")
        return found


@dataclass(frozen=True)
class _OneFile:
    """The parts of a benchmark that its file decides."""

    name: str
    settings: Mapping[str, str]
    make: Callable[[dict[str, Any]], Item]
    metric: Metric[..., Any] | None
    judge: Judge | None
    has_tests: bool | None

    def stage(self, source: Path, dataset_version: str) -> Staged:
        """Stage a JSONL file, or all of a folder."""
        files = sorted(path for path in source.glob("*") if path.name.endswith(SUFFIXES)) if source.is_dir() else [source]
        if not files:
            raise SourceUnreadable(f"{source} holds no {' or '.join(SUFFIXES)} file: give one by --data")
        staging = Staging(self.name, dataset_version)
        for path in files:
            file = relative_name(path, source)
            staging.add_lines(file, read_lines(path), lambda line, file=file: self._made(line, file, dataset_version))
        staging.require_lines(source, len(files))
        return staging.staged()

    def _made(self, line: Line, file: str, version: str) -> tuple[Problem, list[Dialog]]:
        row = parse_object(line.content)
        try:
            item = self.make(row)
            messages = item.by_setting(tuple(self.settings))
            digest = content_id([row, {name: list(texts) for name, texts in messages.items()}, list(item.tests), item.reference])
        except KeyError as fault:
            raise BadRow("missing_field", f"the row has no field {fault}") from None
        except (TypeError, ValueError, AttributeError, IndexError) as fault:
            if isinstance(fault, BadRow):
                raise
            raise BadRow("wrong_type", f"{type(fault).__name__}: {fault}") from None
        if item.tests and self.metric is not None and not self.has_tests:
            raise BadRow("wrong_type", "the task has tests, and the benchmark does not say has_tests=True")
        if not item.tests and self.metric is None:
            raise BadRow("missing_field", "the task has no tests, and the benchmark has no metric or judge for answers without")
        first = next(iter(messages.values()))[0]
        suite = TestSuite(tests=tuple(item.tests)) if item.tests else NO_TESTS
        problem = Problem(
            benchmark=self.name,
            dataset_version=version,
            problem_id=item.id,
            level=item.level,
            prompt=first,
            instructions=(Instruction(instruction_id=BASE_INSTRUCTION, text=first, suite=suite),),
            reference_code=item.reference,
            source_file=file,
            source_line=line.number,
            row_digest=digest,
        )
        return problem, [self._dialog(problem, setting, messages[setting]) for setting in self.settings]

    def _dialog(self, problem: Problem, setting: str, texts: Sequence[str]) -> Dialog:
        turns = [
            turn
            for number, text in enumerate(texts, 1)
            for turn in (
                Turn(turn=number, role=Role.USER, content=text, instruction_id=BASE_INSTRUCTION),
                Turn(turn=number, role=Role.ASSISTANT),
            )
        ]
        return Dialog(
            benchmark=self.name,
            dataset_version=problem.dataset_version,
            dialog_id=f"{problem.problem_id}/{setting}",
            problem_id=problem.problem_id,
            turns=tuple(turns),
            labels=((SETTING, setting), (METRIC, self._metric_of(problem).name)),
            row_digest=content_id([problem.row_digest, setting, list(texts)]),
            problem_digest=problem.row_digest,
        )

    def _metric_of(self, problem: Problem) -> Metric[..., Any]:
        return unit_tests if self.metric is None or problem.instructions[0].suite != NO_TESTS else self.metric

    def plays(self, setting: str, dialog: Dialog) -> bool:
        """Tell whether the setting plays a dialog."""
        return dict(dialog.labels)[SETTING] == setting

    def gold_answer(self, problem: Problem, turn: int) -> str:
        """Return the reference: as a program where tests run it."""
        return fenced_reference(problem, turn) if problem.instructions[0].suite != NO_TESTS else problem.reference_code

    def due(self, setting: str, options: Options, dialog: Dialog) -> Due:
        """Return an answer to each message, and one score of the last."""
        turns = dialog.generated_turns
        return Due(len(turns), frozenset({(turns[-1], dict(dialog.labels)[METRIC])}), turns=turns)

    def test_runs(self, problem: Problem, dialog: Dialog, episode: Episode, options: Options) -> Sequence[TestRun]:
        """Return the tests of the last answer's program; none where the task has no tests."""
        suite, turn = problem.instructions[0].suite, dialog.generated_turns[-1]
        answer = episode.answer(turn)
        if suite == NO_TESTS:
            return ()
        found = None if answer is None else python_program(answer, options, problem.reference_code, suite.tests)
        code, is_readable = (None, True) if found is None else (found.code, found.is_readable)
        reference = problem.reference_code or None
        return (TestRun(turn, BASE_INSTRUCTION, code, suite.tests, reference=reference, is_readable=is_readable),)

    def judge_runs(self, request: JudgeRequest) -> Sequence[JudgeRun]:
        """Return the judgement of the last answer."""
        turn = request.dialog.generated_turns[-1]
        answer = request.episode.answer(turn)
        if answer is None or self.judge is None:
            return ()
        asked = "\n\n".join(one.content or "" for one in request.dialog.turns if one.role is Role.USER)
        prompt = self.judge(asked, answer, request.problem.reference_code)
        return (JudgeRun(turn, request.rubric, (Message(Role.USER, prompt),)),)

    def score(self, request: ScoreRequest) -> Sequence[Score]:
        """Score the last answer of each dialogue."""
        scores: list[Score] = []
        for played in request.played:
            chosen, turn = self._metric_of(request.problem), played.dialog.generated_turns[-1]
            answer = played.episode.answer(turn)
            value: float | UnscoredReason = reason_of(played.episode, turn)
            if chosen is unit_tests:
                for verdict in played.verdicts:
                    if verdict.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT):
                        value = unit_tests(int(verdict.outcome is Outcome.PASSED), 1)
            elif chosen is judged_rating:
                for one in played.judgements:
                    value = judged_rating(one.value) if one.value is not None else UnscoredReason(one.unscored_reason or "infra")
            elif answer is not None:
                value = chosen(answer, request.problem.reference_code)
            scores.append(request.row(played, chosen, value, turn=turn))
        return scores


def benchmark(
    name: str,
    *,
    title: str = "",
    paper: str = "",
    version: str = "1",
    settings: Mapping[str, str] | None = None,
    metric: Metric[..., Any] | None = None,
    judge: Judge | None = None,
    has_tests: bool | None = None,
    packages: Sequence[str] = (),
    marts: Sequence[str] = (),
) -> Callable[[Callable[[dict[str, Any]], Item]], Benchmark]:
    """Make a benchmark of the function below, which makes an `Item` of a row.

    A row is quarantined where the function raises KeyError, TypeError, ValueError, AttributeError or IndexError.

    Args:
        name: name of the file, without `.py`.
        version: part of every id; raise it when the same rows are to be asked anew.
        settings: name -> help; one setting, `chat`, where they are left out.
        metric: score of the last answer where a task has no tests: a metric of `(answer, reference)`.
        judge: in place of `metric`, makes the prompt by which a judge rates the last answer from 1 to 5.
        has_tests: whether some tasks have tests. By default, where there is neither metric nor judge.
        packages: distributions that tests import.
        marts: SQL files of result tables beside the file; line 1 of each states its grain.
    """

    def make_benchmark(make: Callable[[dict[str, Any]], Item]) -> Benchmark:
        file = Path(make.__code__.co_filename)
        helps = dict(settings or {CHAT: "the user's messages, one after another"})
        parts = _OneFile(name, helps, make, judged_rating if judge else metric, judge, has_tests)
        rubric = Rubric(
            name=f"{name}_rating",
            version=version,
            prompt="",
            answer=Rating,
            values=_rating_of,
            dimensions=("rating",),
            ranges={"rating": (1, 5)},
        )
        tested = has_tests if has_tests is not None else parts.metric is None
        metrics = [one for one in (unit_tests if tested else None, parts.metric) if one is not None]
        rubrics, options = (rubric.name,) if judge else (), (extraction_option("scoring"),) if tested else ()
        return Benchmark(
            about=About(name=name, version=version, title=title or name, paper=paper),
            data=Data(
                stage=parts.stage,
                sample=file.with_suffix(".jsonl"),
                versions=("current", "sample"),
                default_version="current",
                bundled={"current": file.with_suffix(".jsonl")},
                plays=parts.plays,
            ),
            settings={
                one: Setting(name=one, help=text, rubrics=rubrics, options=options, runs_programs=tested)
                for one, text in helps.items()
            },
            play=Play(gold_answer=parts.gold_answer),
            programs=Programs(test_runs=parts.test_runs, packages=tuple(packages)) if tested else NO_PROGRAMS,
            judging=Judging({rubric.name: rubric}, parts.judge_runs) if judge else None,
            scores=Scores(metrics=tuple(one.name for one in metrics), score=parts.score, due=parts.due),
            results=Results(marts=tuple(file.parent / mart for mart in marts)),
        )

    return make_benchmark


def _rating_of(answer: Rating) -> Mapping[str, float]:
    return {"rating": float(answer.rating)}
