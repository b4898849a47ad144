"""Synthetic dialogues for the benches: raw task files in a bundled benchmark's format, and a plugin
for what none of them has.

The plugin is found as any third party's is, by entry points: `bench` is a benchmark of dialogues
with any number of turns, `talk` one whose answers are not tested,
`instant` a sandbox that runs nothing and passes every program at once, which leaves the time of the
stage around it.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandbox.interface import Completed
from schemas.content_id import content_id
from schemas.dialog import Dialog, Role, Turn
from schemas.episode import Score, reason_of
from schemas.problem import BASE_INSTRUCTION, Instruction, Problem, TestSuite
from schemas.run import Limits
from tasks.benchmarks.codeif import BENCHMARK as CODEIF
from tasks.benchmarks.codeif.settings import STRATEGIES
from tasks.benchmarks.contract import NO_PROGRAMS, Benchmark, ScoreRequest, Scores, Staged
from tasks.benchmarks.results import Results
from tasks.benchmarks.staging import Staging

ASK = (
    "Change the function of task {task} so that it also handles case {turn}: keep name and "
    "arguments, import nothing, return"
    " an int, treat an empty list as zero, and say in one sentence why the change is safe. "
    "What was asked before stays in force."
)
ENTRY_POINTS = """[parley.benchmarks]
bench = tests.bench.synthetic:BENCHMARK
talk = tests.bench.synthetic:TALK
[parley.sandboxes]
instant = tests.bench.synthetic:InstantSandbox
"""


def write_plugin(folder: Path) -> Path:
    """A folder for PYTHONPATH that announces this module's benchmark and sandbox."""
    info = folder / "parley_bench-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parley-bench\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def write_tasks(folder: Path, n_tasks: int, turns: int = 6) -> Path:
    """A raw task file of `n_tasks` dialogues of `turns` user turns (2 to 8), no two alike."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "L_1_part_1.jsonl").open("w") as file:
        for task in range(1, n_tasks + 1):
            names = STRATEGIES[: turns - 1]
            row = {
                "task_id": task,
                "prompt": ASK.format(task=task, turn=1),
                "test": ["assert solve([1, 2]) == 3"],
                "code": "def solve(items):\n    return sum(items)",
                "requirements": {
                    name: {
                        "requirement": ASK.format(task=task, turn=turn),
                        "unit_test": [f"assert solve([{turn}]) == {turn}"],
                    }
                    for turn, name in enumerate(names, 2)
                },
                "multi-turn": list(names),
            }
            file.write(json.dumps(row) + "\n")
    return folder


def write_mixed(path: Path, n_dialogs: int, fewest: int = 2, most: int = 12, seed: int = 1) -> int:
    """A file for the benchmark `bench`: how many turns each dialogue has.

    Returns the number of turns in all.
    """
    turns = [random.Random(seed + number).randint(fewest, most) for number in range(n_dialogs)]
    path.write_text(json.dumps(turns))
    return sum(turns)


def stage(source: Path, dataset_version: str) -> Staged:
    """Dialogues as `write_mixed` drew them."""
    return _staged("bench", source, dataset_version)


def stage_talk(source: Path, dataset_version: str) -> Staged:
    """The same, for the benchmark `talk`."""
    return _staged("talk", source, dataset_version)


def _staged(benchmark: str, source: Path, dataset_version: str) -> Staged:
    staging = Staging(benchmark, dataset_version)
    for task, n_turns in enumerate(json.loads(source.read_text()), 1):
        staging.add(source.name, task, partial(_row, benchmark, task, n_turns, dataset_version))
    return staging.staged()


def score_talk(request: ScoreRequest) -> Sequence[Score]:
    """1 for each answer that is there."""
    return tuple(
        Score(
            **one.episode.model_dump(
                include={"run_id", "benchmark", "model", "episode_id", "problem_id", "sample"}
            ),
            turn=turn,
            metric="pass_at_1",
            metric_version=1,
            value=None if one.episode.answer(turn) is None else 1.0,
            unscored_reason=reason_of(one.episode, turn)
            if one.episode.answer(turn) is None
            else None,
        )
        for one in request.played
        for turn in one.dialog.generated_turns
    )


def _row(
    benchmark: str, task: int, n_turns: int, dataset_version: str
) -> tuple[Problem, list[Dialog]]:
    names = (BASE_INSTRUCTION, *(f"case {turn}" for turn in range(2, n_turns + 1)))
    texts = [ASK.format(task=task, turn=turn) for turn in range(1, n_turns + 1)]
    suite = TestSuite(tests=("assert solve([1, 2]) == 3",))
    digest = content_id((task, n_turns))
    problem = Problem(
        benchmark=benchmark,
        dataset_version=dataset_version,
        problem_id=f"task/{task}",
        level="L1",
        prompt=texts[0],
        instructions=tuple(
            Instruction(instruction_id=n, text=t, suite=suite)
            for n, t in zip(names, texts, strict=True)
        ),
        reference_code="def solve(items):\n    return sum(items)",
        packages=(),
        source_file="turns.json",
        source_line=task,
        row_digest=digest,
    )
    turns = [
        turn
        for number, (name, text) in enumerate(zip(names, texts, strict=True), 1)
        for turn in (
            Turn(turn=number, role=Role.USER, content=text, instruction_id=name),
            Turn(turn=number, role=Role.ASSISTANT),
        )
    ]
    dialog = Dialog(
        benchmark=benchmark,
        dataset_version=dataset_version,
        dialog_id=problem.problem_id,
        problem_id=problem.problem_id,
        turns=tuple(turns),
        row_digest=digest,
    )
    return problem, [dialog]


BENCHMARK: Benchmark = replace(
    CODEIF,
    about=replace(CODEIF.about, name="bench", title="synthetic dialogues"),
    data=replace(CODEIF.data, stage=stage),
    results=Results(),
)
TALK: Benchmark = replace(
    BENCHMARK,
    about=replace(BENCHMARK.about, name="talk", title="synthetic dialogues without programs"),
    data=replace(BENCHMARK.data, stage=stage_talk),
    programs=NO_PROGRAMS,
    scores=Scores(metrics=("pass_at_1",), score=score_talk),
)


class InstantSandbox:
    """Says of every program that it passed, without running it: what is left is the time of the
    stage around the sandbox.
    """

    name = "instant"
    isolated = False
    has_host_packages = False

    def check(self) -> None:
        """Always usable."""

    def fingerprint(self) -> str:
        return "instant"

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator["InstantSandbox"]:
        yield self

    def run(
        self,
        argv: tuple[str, ...],
        *,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> Completed:
        """A pass as the trusted runner reports it: what it is sent begins with the secret that
        makes a report believed.
        """
        secret = stdin[8 : 8 + int.from_bytes(stdin[:8], "big")]
        fields = (secret, b"end", b"passed", b"")
        return Completed(
            exit_code=0, report=b"ready\n" + b"".join(len(f).to_bytes(8, "big") + f for f in fields)
        )
