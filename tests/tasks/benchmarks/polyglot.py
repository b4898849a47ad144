"""A toy benchmark whose programs name what they need: `check(entry_point)`, pytest nodes in a tree,
a language.
"""

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.content_id import content_id
from schemas.dialog import MISSING, Dialog, Role, Turn
from schemas.episode import Episode, Score, UnscoredReason
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, SuiteKind, TestSuite
from schemas.run import Limits
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.contract import (
    About,
    Benchmark,
    Data,
    Due,
    Programs,
    ScoreRequest,
    Scores,
    Setting,
    Staged,
    TestRun,
)
from tasks.benchmarks.program_runs import Tree
from tasks.language.markdown_code import first_python_block
from tasks.storage.files.source_trees import tree_digests

NAME, METRIC = "polyglot", "pass_at_1"
TREES = "POLYGLOT_TREES"
"""Environment variable: the folder with the trees, an address that is in no id."""
NODES = tuple(f"test_adds.py::test_{name}" for name in ("small", "large", "negative"))
DECIDES = {"adds": NODES[:2], "negates": NODES[2:]}
TREE = {
    "solution.py": "",
    "test_adds.py": "from solution import add\n\n\ndef test_small(): assert add(1, 2) == 3\n\n\n"
    "def test_large(): assert add(9**9, 1) == 9**9 + 1\n\n\ndef test_negative(): assert "
    "add(-1, -2) == -3\n",
}
TASKS: Mapping[str, tuple[SuiteKind, str, str]] = {
    "check": (
        "check",
        "def add(a, b): return a + b",
        "def check(candidate): assert candidate(1, 2) == 3",
    ),
    "tree": ("pytest", "def add(a, b): return a + abs(b)", "\n".join(NODES)),
    "asserts": (
        "asserts",
        "def add(a, b): return a + b",
        "assert add(1, 2) == 3\nassert add(1, 1) == 3",
    ),
    "node": (
        "javascript",
        "const add = (a, b) => a + b;",
        "\nif (add(1, 2) !== 3) throw new Error('wrong');",
    ),
    "java": (
        "java",
        "class Sum { static int add(int a, int b) { return a + b; } }",
        (
            "\nclass Main { public static void main(String[] a) { if (Sum.add(1, 2) != 3) throw "
            "new AssertionError(); } }"
        ),
    ),
}
"""Problem -> kind, reference, tests. The tree's reference is right for some of its nodes only."""


def stage(source: Path, dataset_version: str) -> Staged:
    """The same problems whatever lies at `source`."""
    problems, dialogs = zip(
        *(_row(name, n, dataset_version) for n, name in enumerate(TASKS, 1)), strict=True
    )
    return Staged(dialogs, problems, (), n_input=len(TASKS))


def _row(name: str, line: int, version: str) -> tuple[Problem, Dialog]:
    kind, reference, tests = TASKS[name]
    digest = content_id(TASKS[name])
    same: dict[str, Any] = {
        "benchmark": NAME,
        "dataset_version": version,
        "problem_id": name,
        "row_digest": digest,
    }
    suite = TestSuite(
        tests=tuple(tests.split("\n")) if kind in ("asserts", "pytest") else (tests,), kind=kind
    )
    base = Instruction(instruction_id=BASE_INSTRUCTION, text=name, suite=suite)
    of_file: dict[str, Any] = {"level": "L1", "source_file": "polyglot.py", "source_line": line}
    asked = Turn(
        turn=1, role=Role.USER, content=f"Write add for {name}.", instruction_id=BASE_INSTRUCTION
    )
    return (
        Problem(**same, **of_file, prompt=name, instructions=(base,), reference_code=reference),
        Dialog(**same, dialog_id=name, turns=(asked, Turn(turn=1, role=Role.ASSISTANT))),
    )


def programs(
    problem: Problem, dialog: Dialog, episode: Episode, options: Mapping[str, str]
) -> Sequence[TestRun]:
    """One program for each answer; that in a tree decides two instructions."""
    suite, answer = problem.instructions[0].suite, episode.answer(1)
    code = answer and first_python_block(answer)
    if suite.kind != "pytest":
        entry_point = "add" if suite.kind == "check" else ""
        return (
            TestRun(1, BASE_INSTRUCTION, code, suite.tests, suite.kind, entry_point=entry_point),
        )
    folder, bounds = Path(os.environ.get(TREES, "/nowhere")), Limits(cpu_s=20.0, wall_s=60.0)
    tree = Tree(tree_digests(folder).source if folder.is_dir() else MISSING, folder)
    return (
        TestRun(
            1,
            "",
            code,
            suite.tests,
            "pytest",
            entry_point="solution.py",
            tree=tree,
            limits=bounds,
            decides=DECIDES,
        ),
    )


def score(request: ScoreRequest) -> Sequence[Score]:
    """Share of the instructions passed; unscored where one of them is."""
    verdicts = request.played[0].verdicts
    missing = next((reason for reason in map(_missing, verdicts) if reason), None)
    same = verdicts[0].model_dump(
        include={"run_id", "benchmark", "model", "episode_id", "problem_id", "sample", "turn"}
    )
    value = None if missing else sum(v.outcome is Outcome.PASSED for v in verdicts) / len(verdicts)
    return (Score(**same, metric=METRIC, metric_version=1, value=value, unscored_reason=missing),)


def due(setting: str, options: Mapping[str, str], dialog: Dialog) -> Due:
    """One score of the one answer."""
    return Due(1, frozenset({(1, METRIC)}))


def _missing(verdict: TestVerdict) -> UnscoredReason | None:
    if verdict.outcome is Outcome.UNSCORED and verdict.reason is not None:
        return UnscoredReason(verdict.reason.value)
    return {Outcome.INFRA: UnscoredReason.INFRA, Outcome.ERROR: UnscoredReason.NO_ANSWER}.get(
        verdict.outcome
    )


BENCHMARK = Benchmark(
    about=About(name=NAME, version="1", title="Polyglot", paper="none"),
    data=Data(stage=stage, sample=files("tests.tasks.benchmarks")),
    settings={"ask": Setting(name="ask", help="one question")},
    programs=Programs(test_runs=programs, limits=Limits(cpu_s=20.0, wall_s=60.0)),
    scores=Scores(metrics=(METRIC,), score=score, due=due),
)
