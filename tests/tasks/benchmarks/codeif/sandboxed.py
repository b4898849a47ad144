"""Episodes played with given answers and judged in the real sandbox."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sandbox import registry
from sandbox.judging.runners.run import run_function_tests
from schemas.dialog import Dialog
from schemas.episode import Episode, Score
from schemas.problem import Problem
from schemas.verdict import Outcome, TestVerdict
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.contract import Staged, TestRun
from tests.tasks.benchmarks.codeif.dialogues import episode_of, scores_of, verdicts_of

Program = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Judged:
    """One episode with all that was decided about it."""

    dialog: Dialog
    verdicts: tuple[TestVerdict, ...]
    scores: tuple[Score, ...]

    def passed(self, turn: int) -> bool:
        """Whether every test that was run on the turn's answer passes."""
        return all(v.outcome is Outcome.PASSED for v in self.verdicts if v.turn == turn)


def judge(
    staged: Staged,
    answers: Callable[[Problem, Dialog], Sequence[str]],
    options: Mapping[str, str],
    turns: Sequence[int] = (),
) -> tuple[Judged, ...]:
    """Run the programs of all problems, equal ones once, two at a time; only those of `turns`,
    where given.
    """
    played: list[tuple[Problem, Dialog, Episode, list[TestRun]]] = []
    for problem, dialog in zip(staged.problems, staged.dialogs, strict=True):
        episode = episode_of(problem, dialog, answers(problem, dialog))
        runs = [
            r
            for r in BENCHMARK.programs.test_runs(problem, dialog, episode, options)
            if not turns or r.turn in turns
        ]
        played.append((problem, dialog, episode, runs))
    outcomes = outcomes_of(
        {program(run) for _, _, _, runs in played for run in runs if run.code is not None}
    )
    judged: list[Judged] = []
    for problem, dialog, episode, runs in played:
        verdicts = verdicts_of(episode, runs, lambda run: outcomes[program(run)])
        judged.append(Judged(dialog, verdicts, scores_of(problem, dialog, episode, verdicts)))
    return tuple(judged)


def program(run: TestRun) -> Program:
    """What decides a run's outcome."""
    return run.code or "", run.tests


def outcomes_of(programs: set[Program]) -> dict[Program, Outcome]:
    sandbox = registry.load(
        "zygote"
    )  # the same figures through bubblewrap: tests/flows/cli/test_golden_cli.py
    ordered = sorted(programs)
    with ThreadPoolExecutor(2) as threads:
        said = threads.map(
            lambda one: (
                run_function_tests(sandbox, one[0], one[1], BENCHMARK.programs.limits).outcome
            ),
            ordered,
        )
        return dict(zip(ordered, said, strict=True))
