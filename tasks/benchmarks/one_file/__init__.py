"""Benchmark in one file: a function turns each row of a JSONL file into an `Item`.

`parley run path/to/sums.py` runs it. The file's name is the benchmark's name. Its data are in
`sums.jsonl` in the same folder, unless `--data` names another file:

    @benchmark("sums")
    def SUMS(row):
        return Item(row["id"], [row["question"]], tests=row["tests"], reference=row["solution"])

The program in the last answer must pass the tests (metric `unit_tests`). A task without tests is
scored by `metric(answer, reference)` or by a judge. With `agentic=True`, each task has a
`Repository` on which an agent works (metric `resolved`).

Benchmarks with simulated users or feedback implement `tasks.benchmarks.contract`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.run import Limits
from tasks.benchmarks.advanced import Judging, Play, Resources, scripted_chat
from tasks.benchmarks.contract import NO_PROGRAMS, Benchmark, Data, Programs, Scores
from tasks.benchmarks.one_file.items import LIMITS, cast
from tasks.benchmarks.one_file.items import Item as Item  # a benchmark imports these from here
from tasks.benchmarks.one_file.items import Repository as Repository
from tasks.benchmarks.one_file.parts import CHAT, Judge, OneFile, Rating, judged_rating
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.results import Results
from tasks.benchmarks.setting import About, Setting
from tasks.judging.rubric import Rubric
from tasks.metrics.code_rules import unit_tests
from tasks.metrics.registry import Metric
from tasks.metrics.repository_dialogue import resolved


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
    agentic: bool = False,
    packages: Sequence[str] = (),
    marts: Sequence[str] = (),
) -> Callable[[Callable[[dict[str, Any]], Item]], Benchmark]:
    """Return a decorator that makes a benchmark of a function from row to `Item`.

    A row is quarantined if the function raises KeyError, TypeError, ValueError, AttributeError or
    IndexError.

    Args:
        name: Name of the file, without `.py`.
        title: Title in tables. Default: the name.
        paper: Title of the paper.
        version: Part of every id. Increase it to request new answers for unchanged rows.
        settings: Help text of each setting, by name. Default: the single setting `chat`.
        metric: Metric `(answer, reference)` that scores the last answer of a task without tests.
        judge: Alternative to `metric`: returns the prompt with which a judge rates the last answer
            from 1 to 5.
        has_tests: True if some tasks have tests. Default: True if there is neither metric nor
            judge.
        agentic: True if each task has a `Repository` for an agent (`--agent autonomous`). A chat
            model answers with a diff.
        packages: Distributions that the tests import.
        marts: SQL files of result tables, in the file's folder. Line 1 of each states its grain.

    Raises:
        ValueError: The scoring method is missing or ambiguous.
    """
    if (metric is not None) + (judge is not None) + agentic > 1:
        raise ValueError(
            f"benchmark {name!r}: metric, judge and agentic exclude each other. Keep one"
        )
    tested = has_tests if has_tests is not None else agentic or (metric is None and judge is None)
    if not tested and metric is None and judge is None:
        raise ValueError(
            f"benchmark {name!r}: the answers have no tests, so name a metric or a judge"
        )

    def make_benchmark(make: Callable[[dict[str, Any]], Item]) -> Benchmark:
        file = Path(make.__code__.co_filename)
        for mart in marts:
            if not (file.parent / mart).is_file():
                raise ValueError(
                    f"benchmark {name!r}: no file {file.parent / mart}. "
                    f"Marts are SQL files beside {file.name}"
                )
        helps = dict(settings or {CHAT: "the user's messages, one after another"})
        parts = OneFile(
            name, helps, make, judged_rating if judge else metric, judge, tested, agentic
        )
        rubric = Rubric(
            name=f"{name}_rating",
            version=version,
            prompt="",
            answer=Rating,
            values=_rating_of,
            dimensions=("rating",),
            ranges={"rating": (1, 5)},
        )
        test_metric = resolved if agentic else unit_tests
        metrics = [m for m in (test_metric if tested else None, parts.metric) if m is not None]
        rubrics, options = (
            (rubric.name,) if judge else (),
            (extraction_option("scoring"),) if tested and not agentic else (),
        )
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
                setting: Setting(
                    name=setting, help=text, rubrics=rubrics, options=options, runs_programs=tested
                )
                for setting, text in helps.items()
            },
            play=Play(cast=cast if agentic else scripted_chat, gold_answer=parts.gold_answer),
            resources=Resources(resolve=parts.resolve) if agentic else Resources(),
            programs=Programs(
                test_runs=parts.test_runs,
                limits=LIMITS if agentic else Limits(),
                packages=(*(("pytest",) if agentic else ()), *packages),
            )
            if tested
            else NO_PROGRAMS,
            judging=Judging({rubric.name: rubric}, parts.judge_runs) if judge else None,
            scores=Scores(metrics=tuple(m.name for m in metrics), score=parts.score, due=parts.due),
            results=Results(marts=tuple(file.parent / mart for mart in marts)),
        )

    return make_benchmark


def _rating_of(answer: Rating) -> Mapping[str, float]:
    return {"rating": float(answer.rating)}
