"""Dynamic conversation: which instruction comes next, when one is discarded, and what is measured
(sections 3.1 and 3.2).
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from schemas.dialog import Dialog, Role
from schemas.episode import Episode, Step, StopReason, UnscoredReason
from schemas.errors import SandboxUnavailable
from schemas.problem import Problem, SuiteKind
from schemas.run import Sampling
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.codeif.settings import DYNAMIC, most_rounds
from tasks.benchmarks.contract import TestRun
from tasks.benchmarks.setting import CastRequest
from tasks.dialogue.engine import Ending, Transcript, play_dialogue
from tasks.dialogue.reviewed_subject import review_rounds
from tasks.dialogue.tools import Place, WantedProgram
from tasks.worker.program_book import program_in_place
from tests.tasks.benchmarks.codeif.dialogues import raw_row, scores_of, verdicts_of, write_rows
from tests.tasks.benchmarks.codeif.laid_out import placed
from tests.tasks.benchmarks.codeif.test_cast import Numbered
from tests.tasks.benchmarks.ended_episode import ended_episode

BASE, IO, EXCEPTION, EXTENSION, STANDARD = (
    *("base", "Input-Output Conditions", "Exception Handling"),
    *("Functionality Extension", "Code Standard"),
)
REVIEWED = (BASE, IO, EXCEPTION, STANDARD)
WORKED = ("-+-+", "++-+", "++-+", "-+--", "+++-", "++--", "++-+")
"""What each answer passes, in the order of `REVIEWED`."""
NOTHING = UnscoredReason.NOTHING_TO_FORGET


class Table:
    """Tests that an answer passes where its row of the table says so."""

    def __init__(self, problem: Problem, rows: Sequence[str]) -> None:
        self._names = {problem.instruction(name).suite.tests: name for name in REVIEWED}
        self._rows = rows
        self.n_run = 0

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        self.n_run += 1
        turn, name = int(code.removeprefix("answer ")), self._names[tests]
        outcome = self.outcome(turn, name)
        return ProgramVerdict(
            outcome=outcome, detail="" if outcome is Outcome.PASSED else f"{name} said no to {turn}"
        )

    def outcome(self, turn: int, name: str) -> Outcome:
        row = self._rows[min(turn, len(self._rows)) - 1]
        return Outcome.PASSED if row[REVIEWED.index(name)] == "+" else Outcome.FAILED


@pytest.fixture
def task(tmp_path: Path) -> tuple[Problem, Dialog]:
    requirements = raw_row()["requirements"]
    requirements[IO] = {"requirement": "Take numbers only.", "unit_test": ["assert 'numbers'"]}
    row = raw_row(requirements=requirements, **{"multi-turn": [IO, EXCEPTION, EXTENSION, STANDARD]})
    staged = BENCHMARK.data.stage(write_rows(tmp_path / "rows.jsonl", row), "current")
    return staged.problems[0], staged.dialogs[0]


def play(
    task: tuple[Problem, Dialog], rows: Sequence[str], steps: tuple[Step, ...] = ()
) -> tuple[Ending, Table, Numbered]:
    problem, dialog = task
    table, model = Table(problem, rows), Numbered()
    request = CastRequest(DYNAMIC, {}, problem, dialog, model, None, Sampling(), table)
    opening = Transcript(problem, dialog, sample=0, seed=0, turn=1, steps=steps)
    return (
        asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda _: None)),
        table,
        model,
    )


def given(ending: Ending) -> list[tuple[str, bool]]:
    return [(one.instruction_id, one.is_feedback) for one in review_rounds(ending.steps)]


def test_a_failed_instruction_gets_feedback_once_and_is_then_discarded_and_a_forgotten_one_comes_again(
    task: tuple[Problem, Dialog],
) -> None:
    ending, table, _ = play(task, WORKED)
    assert given(ending) == [
        (BASE, False), (BASE, True),
        # discarded: answers 6 and 7 fail it too, and it is not given again
        (EXCEPTION, False), (EXCEPTION, True),
        (BASE, False),  # forgotten by answer 4, and the first in the data's order
        (STANDARD, False), (STANDARD, True),
    ]  # fmt: skip
    assert ending.stop_reason is StopReason.FINISHED
    assert table.n_run == 7 * 4


def test_feedback_holds_the_unmet_instruction_and_what_its_tests_said(
    task: tuple[Problem, Dialog],
) -> None:
    ending, _, model = play(task, WORKED)
    said = [step.content for step in ending.steps if step.role is Role.USER]
    assert said[2] == task[0].instruction(EXCEPTION).text
    assert task[0].instruction(EXCEPTION).text in said[3]
    assert f"{EXCEPTION} said no to 3" in said[3]
    assert [m.content for m in model.asked[3].messages] == [
        said[0],
        "answer 1",
        said[1],
        "answer 2",
        said[2],
        "answer 3",
        said[3],
    ]


def test_values_of_that_dialogue_worked_by_hand(task: tuple[Problem, Dialog]) -> None:
    ending, table, _ = play(task, WORKED)
    rows = scored(task, ending, table)
    ia, strict, fraction, ifr, ife = BENCHMARK.metrics_of(DYNAMIC)
    assert {
        metric: [rows[turn, metric] for turn in range(1, 8)]
        for metric in (ia, strict, fraction, ifr, ife)
    } == {
        ia: [0, 1, 0, 0, 1, 0, 1],
        strict: [0, 1, 0, 0, 1, 0, 0],
        fraction: [0, 1, 1 / 2, 0, 1, pytest.approx(1 / 3), pytest.approx(2 / 3)],
        ifr: [NOTHING, NOTHING, 0, 1, 0, 1 / 2, 1 / 2],
        ife: [0, 1 / 2, pytest.approx(1 / 3), 0, 2 / 5, pytest.approx(1 / 6), pytest.approx(2 / 7)],
    }
    assert len(rows) == 7 * 5


def scored(
    task: tuple[Problem, Dialog], ending: Ending, table: Table
) -> dict[tuple[int, str], object]:
    problem, dialog = task
    episode = ended_episode(DYNAMIC, dialog, ending)

    def judge(run: TestRun) -> Outcome:
        return table.outcome(run.turn, run.instruction_id)

    verdicts = verdicts_of(
        episode, BENCHMARK.programs.test_runs(problem, dialog, episode, {}), judge
    )
    return {
        (s.turn, s.metric): s.unscored_reason or s.value
        for s in scores_of(problem, dialog, episode, verdicts)
    }


def test_a_project_that_is_away_for_a_moment_ends_the_dialogue_as_a_fault_that_is_tried_again() -> (
    None
):
    class Away:
        async def run(
            self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: Place | None = None
        ) -> ProgramVerdict:
            program_in_place((), WantedProgram(kind, code, tests, place))
            raise AssertionError("the project is there")

    bundled = Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES]))
    staged = placed(BENCHMARK.data.stage(bundled, SAMPLE_REPOSITORIES), bundled / "projects")
    problem, dialog = staged.problems[0], staged.dialogs[0]
    request = CastRequest(DYNAMIC, {}, problem, dialog, Numbered(), None, Sampling(), Away())
    opening = Transcript(problem, dialog, sample=0, seed=0, turn=1)
    ending = asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda _: None))
    assert ending.stop_reason is StopReason.INFRA


def test_it_ends_after_twice_the_number_of_instructions(task: tuple[Problem, Dialog]) -> None:
    ending, _, _ = play(task, ["----"])
    assert given(ending) == [
        (name, is_feedback) for name in REVIEWED for is_feedback in (False, True)
    ]
    assert ending.stop_reason is StopReason.TURN_LIMIT
    assert len(given(ending)) == most_rounds(task[1].instruction_ids) == 8


def test_instructions_that_the_answer_meets_are_never_given(task: tuple[Problem, Dialog]) -> None:
    ending, _, _ = play(task, ["++++"])
    assert given(ending) == [(BASE, False)]
    assert ending.stop_reason is StopReason.FINISHED


def test_a_dialogue_that_was_cut_off_goes_on_as_it_would_have(task: tuple[Problem, Dialog]) -> None:
    whole, _, _ = play(task, WORKED)
    for n in range(len(whole.steps)):
        again, _, _ = play(task, WORKED, whole.steps[:n])
        assert again == whole


def test_the_programs_after_the_dialogue_are_those_within_it(task: tuple[Problem, Dialog]) -> None:
    problem, dialog = task
    ending, _, _ = play(task, WORKED)
    episode = ended_episode(DYNAMIC, dialog, ending)
    runs = BENCHMARK.programs.test_runs(problem, dialog, episode, {})
    assert [(run.turn, run.instruction_id) for run in runs] == [
        (turn, name) for turn in range(1, 8) for name in REVIEWED
    ]
    assert {(run.code, run.tests, run.kind) for run in runs if run.turn == 3} == {
        ("answer 3", problem.instruction(name).suite.tests, "statements") for name in REVIEWED
    }


class Broken:
    """A sandbox that cannot run anything."""

    async def run(
        self, kind: SuiteKind, code: str, tests: tuple[str, ...], place: object = None
    ) -> ProgramVerdict:
        raise SandboxUnavailable("no namespace")


def test_a_fault_of_the_sandbox_is_not_the_model_s(task: tuple[Problem, Dialog]) -> None:
    problem, dialog = task
    request = CastRequest(DYNAMIC, {}, problem, dialog, Numbered(), None, Sampling(), Broken())
    opening = Transcript(problem, dialog, sample=0, seed=0, turn=1)
    ending = asyncio.run(play_dialogue(opening, BENCHMARK.play.cast(request), lambda _: None))
    assert (ending.stop_reason, ending.failed_calls) == (StopReason.INFRA, 1)
    rows = reasons(task, ended_episode(DYNAMIC, dialog, ending))
    assert set(rows) == {UnscoredReason.INFRA}
    assert len(rows) == len(BENCHMARK.due(DYNAMIC, {}, dialog).scores) == 5


def reasons(task: tuple[Problem, Dialog], episode: Episode) -> list[UnscoredReason | None]:
    problem, dialog = task
    runs = BENCHMARK.programs.test_runs(problem, dialog, episode, {})
    verdicts = (
        verdicts_of(episode, runs, lambda _: Outcome.PASSED)
        if runs and runs[0].code is not None
        else ()
    )
    return [score.unscored_reason for score in scores_of(problem, dialog, episode, verdicts)]
