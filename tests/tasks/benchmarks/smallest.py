"""Smallest benchmark: JSONL tasks with one question and one test each. Copy it to begin yours."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from schemas.dialog import Dialog
from schemas.episode import Episode, Score
from schemas.problem import BASE_INSTRUCTION, Problem, TestSuite
from schemas.verdict import Outcome
from tasks.benchmarks.contract import (
    About,
    Benchmark,
    Data,
    Programs,
    ScoreRequest,
    Scores,
    Setting,
    Staged,
    TestRun,
)
from tasks.benchmarks.raw_rows import RawModel, Text, matching, validated
from tasks.benchmarks.staging import RawRow, Staging, dialog_of, question
from tasks.language.markdown_code import first_python_block
from tasks.metrics.iterative_generation import pass_at_1

NAME = "smallest"


class Row(RawModel):
    """One line of the file. A line that does not fit is quarantined with the reason."""

    id: Text
    question: Text
    test: Text
    code: Text


def stage(source: Path, dataset_version: str) -> Staged:
    """Return the rows of `smallest.jsonl` in a folder."""
    staging = Staging(NAME, dataset_version)
    staging.add_source(source, lambda folder: matching(folder, "smallest.jsonl"), make_task)
    return staging.staged()


def make_task(row: RawRow) -> tuple[Problem, Sequence[Dialog]]:
    """Return the problem of a row, and its dialog of one round."""
    task = validated(Row, row.fields)
    problem = row.problem(
        task.id,
        task.question,
        TestSuite(tests=(task.test,)),
        task.code,
        row.digest(row.fields),
        level="L1",
    )
    return problem, (dialog_of(problem, question(1, task.question), labels=()),)


def test_runs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> Sequence[TestRun]:
    """Return the tests to run on the answer's program, which is None without an answer."""
    answer = episode.answer(1)
    code = answer and first_python_block(answer)
    return (TestRun(1, BASE_INSTRUCTION, code, problem.instructions[0].suite.tests),)


def score(request: ScoreRequest) -> Sequence[Score]:
    """Return 1 if the test passed, 0 if not, or why it has no result."""
    (played,) = request.played
    (verdict,) = played.verdicts
    missing = played.missing_result(verdict, turn=1)
    value = missing or pass_at_1([verdict.outcome is Outcome.PASSED], turn=0)
    return (request.row(played, pass_at_1, value, turn=1),)


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Smallest", paper="none"),
    data=Data(stage=stage, sample=files("tests.tasks.benchmarks")),
    settings={"ask": Setting(name="ask", help="one question")},
    programs=Programs(test_runs=test_runs),
    scores=Scores(metrics=(pass_at_1.name,), score=score),
)
