"""Programs that run while a dialogue goes on: their reports are kept with the answers, and nothing
runs twice.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import pytest

from sandbox.backends.unisolated import UnisolatedSandbox
from sandbox.registry import SANDBOXES
from schemas.dialog import Role
from schemas.episode import Episode, Score, StopReason
from schemas.errors import SandboxUnavailable
from schemas.lake.rows import PackedRows
from schemas.run import Limits
from schemas.verdict import Outcome, ProgramVerdict, TestVerdict
from tasks import stage as stage_module
from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import Conversed, ConverseStage, context_for
from tasks.dialogue.tools import WantedProgram
from tasks.execute import ExecuteStage, RunAhead
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.score import score, score_requests
from tasks.stage import StageResult, run_stage
from tasks.storage.home import Home
from tasks.storage.run_rows import verdict_table
from tasks.worker import process
from tasks.worker.program_book import (
    BookReader,
    Found,
    ProgramBook,
    ReportCache,
    Result,
)
from tests.faults.nights import local_client
from tests.tasks.staged_plan import stage
from tests.tasks.worker.coding_rounds import ANSWERS, MODULE, NAME, RIGHT, TESTS


@pytest.fixture(autouse=True)
def _known_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, NAME, f"{MODULE}:BENCHMARK")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_client() as found:
        yield found


def plan_of(
    home: Path, setting: str = "live", *, samples: int = 1, sandbox: str = "none"
) -> RunPlan:
    benchmark = BenchmarkRequest(name=f"{NAME}.{setting}", samples=samples)
    return plan_run(
        EvaluationRequest(
            model=ModelRequest(spec="control:gold"), benchmark=benchmark, sandbox=sandbox
        ),
        Home(home),
    )


@dataclass(frozen=True)
class Night:
    conversed: Conversed
    executed: StageResult
    episodes: PackedRows[Episode]
    verdicts: PackedRows[TestVerdict]
    scores: PackedRows[Score]

    def episode(self, problem: str) -> Episode:
        return next(e for e in self.episodes if e.problem_id == problem)


def play(plan: RunPlan, client: Any) -> Night:
    stage(plan)
    context = context_for(plan, workers=1, cores=2)
    conversed = run_stage(ConverseStage(plan, context, client))
    episodes = plan.episodes.packed(plan.members.ids)
    executed = run_stage(ExecuteStage(plan, context, client, episodes))
    verdicts = PackedRows[TestVerdict].of_tables(
        "test_verdicts", [verdict_table(plan.lake, **plan.keys)]
    )
    return Night(conversed, executed, episodes, verdicts, score(plan, episodes, verdicts))


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory, client: Any) -> Night:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(BENCHMARKS.built_in, NAME, f"{MODULE}:BENCHMARK")
        return play(plan_of(tmp_path_factory.mktemp("home")), client)


def test_each_answer_holds_what_running_it_told(night: Night) -> None:
    told = {
        problem: [
            step.program.outcome
            for step in night.episode(problem).steps
            if step.program is not None
        ]
        for problem in ANSWERS
    }
    failed, passed = Outcome.FAILED, Outcome.PASSED
    assert told == {
        "wrong at first": [failed, passed],
        "never compiles": [failed] * 3,
        "hangs at first": [Outcome.TIMEOUT, passed],
        "right at once": [passed],
    }
    first = night.episode("wrong at first").steps[1].program
    assert first is not None
    assert [(case.name, case.outcome) for case in first.cases] == [
        ("TestCases.test_case_1", passed),
        ("TestCases.test_case_2", failed),
    ]
    feedback = night.episode("never compiles").steps[2].feedback
    assert feedback is not None
    assert feedback.compilation is not None
    assert feedback.compilation.startswith(
        'Traceback (most recent call last):\n  File "tmp.py", line 1\n'
    )


def test_verdicts_are_those_of_the_dialogue_and_no_program_runs_twice(night: Night) -> None:
    programs = {
        (e.episode_id, s.turn): s.program
        for e in night.episodes
        for s in e.steps
        if s.role is Role.ASSISTANT and s.program
    }
    assert {
        (v.episode_id, v.turn): (v.verdict_id, v.outcome, v.detail, v.duration_s)
        for v in night.verdicts
    } == {key: (p.verdict_id, p.outcome, p.detail, p.duration_s) for key, p in programs.items()}
    # Three problems come to the same code, and one says three times what does not compile.
    assert night.conversed.n_run == len({p.verdict_id for p in programs.values()}) == 4
    assert night.executed.n_run == 0


def test_a_run_whose_dialogues_run_nothing_runs_it_after_them(
    tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunAhead, "begin", lambda *_: None)
    monkeypatch.setattr(process, "_worker", None)  # with the reports of the tests before
    plan = plan_of(tmp_path, "told", samples=2)
    told = play(plan, client)
    assert (told.conversed.n_run, told.executed.n_run) == (
        0,
        2,
    )  # equal programs of the process are run once
    again = play(plan_of(tmp_path / "of another run", "told"), client)
    assert (again.conversed.n_run, again.executed.n_run) == (0, 0)
    assert {v.problem_id: v.outcome for v in told.verdicts} == {
        "wrong at first": Outcome.FAILED,
        "never compiles": Outcome.FAILED,
    }


def test_scores_are_asked_for_once_for_each_problem_and_sample_with_all_episodes_of_it(
    tmp_path: Path, client: Any
) -> None:
    plan = plan_of(tmp_path, "told", samples=2)
    told = play(plan, client)
    requests = list(score_requests(plan, told.episodes, told.verdicts))
    assert [(r.problem.problem_id, r.sample, r.setting) for r in requests] == [
        (problem, sample, "told")
        for problem in ("wrong at first", "never compiles")
        for sample in (0, 1)
    ]
    for request in requests:
        ids = [played.dialog.dialog_id for played in request.played]
        assert ids == [f"{request.problem.problem_id}#told {n}" for n in (1, 2)]
        assert {played.episode.sample for played in request.played} == {request.sample}
        assert all(
            played.verdicts[0].episode_id == played.episode.episode_id for played in request.played
        )
    assert len(told.scores) == 4


class Broken(UnisolatedSandbox):
    """A sandbox that cannot run anything, and whose verdicts would be its own."""

    def fingerprint(self) -> str:
        return "broken"

    def session(self, limits: Limits, *, keep_files: bool = False) -> Any:
        raise SandboxUnavailable("no sandbox today; install one")


def test_a_sandbox_that_fails_makes_the_episode_pending_again(
    tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "RETRY_DELAY_S", 0.01)
    monkeypatch.setitem(SANDBOXES.built_in, "broken", f"{__name__}:Broken")
    lost = play(plan_of(tmp_path, sandbox="broken"), client)
    assert {e.stop_reason for e in lost.episodes} == {StopReason.INFRA}
    assert lost.conversed.n_pending == len(ANSWERS)
    assert "no sandbox today; install one" in (lost.conversed.error or "")
    assert all(s.value is None for s in lost.scores)


def book_of(tmp_path: Path, cache: ReportCache) -> ProgramBook:
    context = context_for(plan_of(tmp_path), workers=1, cores=2)
    return process.RunState(context, cache, lambda **_: None).programs


async def find(
    book: ProgramBook, *program: Any, count: Callable[[], None] = lambda: None
) -> tuple[ProgramVerdict, bool]:
    """Return the report, and whether the program was run for this call."""
    reader = BookReader(lambda: book, count=count)
    return await reader.run(*program), reader.n_run == 1


def test_equal_programs_that_are_wanted_at_once_or_later_run_once(tmp_path: Path) -> None:
    cache, ran = ReportCache(), list[int]()
    first, other_run = book_of(tmp_path, cache), book_of(tmp_path, cache)

    def count() -> None:
        ran.append(1)

    async def ask() -> list[bool]:
        at_once = await asyncio.gather(
            *(find(first, "unittest", RIGHT, (TESTS,), count=count) for _ in range(5))
        )
        later = await find(other_run, "unittest", RIGHT, (TESTS,), count=count)
        assert len({report.model_dump_json() for report, _ in (*at_once, later)}) == 1
        return [was_run for _, was_run in (*at_once, later)]

    assert asyncio.run(ask()) == [True, *[False] * 5]
    assert ran == [1]


HANGS = WantedProgram("statements", "while True: pass", ("pass",))
SLOW = WantedProgram("statements", "import time; time.sleep(1.1)", ("assert False",))
WRONG = WantedProgram("statements", "x = 1", ("assert x == 2",))
SMALL = Limits(cpu_s=1, wall_s=10)


def test_of_one_answers_programs_those_run_that_are_neither_stored_nor_in_flight(
    tmp_path: Path,
) -> None:
    book = book_of(tmp_path, ReportCache())
    programs = {
        f"{n}": WantedProgram("statements", "x = 1", (f"assert x == {n}",)) for n in range(3)
    }

    async def ask() -> list[Found]:
        limits = Limits()
        first = {key: programs[key] for key in "01"}
        at_once = await asyncio.gather(
            book.find_all(first, limits), book.find_all(programs, limits)
        )
        return [*at_once, await book.find_all(programs, limits)]

    found = asyncio.run(ask())
    assert [(sorted(one.ran), one.n_runs) for one in found] == [
        (["0", "1"], 2),
        (["2"], 1),
        ([], 0),
    ]
    failed, passed = Outcome.FAILED, Outcome.PASSED
    assert [
        {key: result.outcome for key, result in one.results.items() if has_outcome(result)}
        for one in found
    ] == [{"0": failed, "1": passed}, *[{"0": failed, "1": passed, "2": failed}] * 2]


def has_outcome(result: Result) -> TypeGuard[ProgramVerdict]:
    return isinstance(result, ProgramVerdict)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "is_low", "is_kept"),
    [
        (WRONG, False, True),
        (WRONG, True, True),
        (SLOW, False, True),
        (SLOW, True, False),
        (HANGS, False, False),
        (HANGS, True, False),
    ],
)
def test_a_report_that_tells_of_the_machine_too_is_not_kept(
    tmp_path: Path, program: WantedProgram, is_low: bool, is_kept: bool
) -> None:
    cache = ReportCache()
    book = book_of(tmp_path, cache)
    found = asyncio.run(book.find_all({"v": program}, SMALL, is_low=is_low))
    assert has_outcome(found.results["v"])
    assert found.is_unsure == (is_low and not is_kept)
    assert (cache.get("v") is not None) == is_kept


def test_a_program_that_two_runs_ran_at_once_takes_its_room_once() -> None:
    cache = ReportCache(characters=2000)
    for length in (1000, 10):
        cache.put(ProgramVerdict(verdict_id="twice", outcome=Outcome.FAILED, detail="x" * length))
    cache.put(ProgramVerdict(verdict_id="other", outcome=Outcome.FAILED))
    cache.put(ProgramVerdict(verdict_id="third", outcome=Outcome.FAILED))
    assert [cache.get(name) is not None for name in ("twice", "other", "third")] == [
        False,
        True,
        True,
    ]
    cache.put(ProgramVerdict(verdict_id="fourth", outcome=Outcome.FAILED, detail="x" * 500))
    assert [cache.get(name) is not None for name in ("other", "third", "fourth")] == [
        True,
        True,
        True,
    ]


def test_the_kind_of_tests_is_part_of_what_a_program_is(tmp_path: Path) -> None:
    programs = book_of(tmp_path, ReportCache())

    async def ask() -> tuple[str, str]:
        as_module, _ = await find(programs, "unittest", RIGHT, (TESTS,))
        as_statements, _ = await find(programs, "statements", RIGHT, (TESTS,))
        return as_module.verdict_id, as_statements.verdict_id

    assert len(set(asyncio.run(ask()))) == 2


@pytest.mark.slow
def test_the_cache_drops_what_was_used_least_when_its_room_is_used_up(tmp_path: Path) -> None:
    programs = book_of(tmp_path, ReportCache(characters=2000))

    async def ask(n: int) -> bool:
        return (await find(programs, "statements", f"x = {n}", (f"assert x == {n}",)))[1]

    async def all_of_them() -> list[bool]:
        return [await ask(n) for n in (1, 2, 3, 4, 1, 5, 1, 2)]

    assert asyncio.run(all_of_them()) == [True, True, True, True, False, True, False, True]
