"""Smallest benchmark: JSONL tasks with one question and one test each. Copy it to begin yours."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Episode, Score, reason_of
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, TestSuite
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
from tasks.language.markdown_code import first_python_block

NAME, METRIC = "smallest", "pass_at_1"


def stage(source: Path, dataset_version: str) -> Staged:
    """Each line: `{"id", "question", "test", "code"}`."""
    lines = (source / "smallest.jsonl").read_text(encoding="utf-8").splitlines()
    problems, dialogs = zip(
        *(_row(json.loads(line), n, dataset_version) for n, line in enumerate(lines, 1)),
        strict=True,
    )
    return Staged(dialogs, problems, quarantined=(), n_input=len(lines))


def _row(row: Mapping[str, str], line: int, version: str) -> tuple[Problem, Dialog]:
    same: dict[str, Any] = {
        "benchmark": NAME,
        "dataset_version": version,
        "problem_id": row["id"],
        "row_digest": content_id(row),
    }
    base = Instruction(
        instruction_id=BASE_INSTRUCTION, text=row["question"], suite=TestSuite(tests=(row["test"],))
    )
    of_file: dict[str, Any] = {"level": "L1", "source_file": "smallest.jsonl", "source_line": line}
    asked = Turn(turn=1, role=Role.USER, content=row["question"], instruction_id=BASE_INSTRUCTION)
    problem = Problem(
        **same, **of_file, prompt=row["question"], instructions=(base,), reference_code=row["code"]
    )
    return problem, Dialog(
        **same, dialog_id=row["id"], turns=(asked, Turn(turn=1, role=Role.ASSISTANT))
    )


def programs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> Sequence[TestRun]:
    """The answer's code with its test."""
    answer = episode.answer(1)
    return (
        TestRun(
            1,
            BASE_INSTRUCTION,
            answer and first_python_block(answer),
            problem.instructions[0].suite.tests,
        ),
    )


def score(request: ScoreRequest) -> Sequence[Score]:
    """1 where the test passed."""
    (verdict,) = request.played[0].verdicts
    same = verdict.model_dump(
        include=set(Score.model_fields) & set(type(verdict).model_fields) - {"instruction_id"}
    )
    missing = (
        reason_of(request.played[0].episode, 1)
        if verdict.outcome in (Outcome.INFRA, Outcome.ERROR)
        else None
    )
    value = None if missing else float(verdict.outcome is Outcome.PASSED)
    return (Score(**same, metric=METRIC, metric_version=1, value=value, unscored_reason=missing),)


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Smallest", paper="none"),
    data=Data(stage=stage, sample=files("tests.tasks.benchmarks")),
    settings={"ask": Setting(name="ask", help="one question")},
    programs=Programs(test_runs=programs),
    scores=Scores(metrics=(METRIC,), score=score),
)
