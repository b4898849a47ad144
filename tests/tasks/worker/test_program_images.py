"""A program may name an image of its own: it runs there, or is unscored where the sandbox runs no
images.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.unisolated import UnisolatedSandbox
from schemas.episode import StopReason
from schemas.run import Limits
from schemas.verdict import FailureReason, Outcome
from tasks.benchmarks.program_runs import TestRun
from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import context_for
from tasks.dialogue.engine import Ending
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.worker.execute_shard import answers_of, decide, id_of
from tasks.worker.jobs import ExecuteItem
from tasks.worker.program_book import ProgramBook, ProgramFacts, ReportCache
from tests.tasks.benchmarks.ended_episode import ended_episode
from tests.tasks.worker.coding_rounds import MODULE, NAME

IMAGE = "registry.example/python@sha256:" + "0" * 64


class Imaged(UnisolatedSandbox):
    """Runs everything here, and remembers which image was asked for."""

    def __init__(self, asked: list[str], image: str = "") -> None:
        super().__init__()
        self._asked, self._image = asked, image

    def with_image(self, image: str) -> "Imaged":
        return Imaged(self._asked, image)

    @contextmanager
    def session(self, limits: Limits, *, keep_files: bool = False) -> Iterator[Any]:
        self._asked.append(self._image)
        with super().session(limits, keep_files=keep_files) as session:
            yield session


@pytest.fixture
def decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs two programs on one answer, the second of which names an image."""
    monkeypatch.setitem(BENCHMARKS.built_in, NAME, f"{MODULE}:BENCHMARK")
    benchmark = BenchmarkRequest(name=f"{NAME}.live")
    plan = plan_run(
        EvaluationRequest(
            model=ModelRequest(spec="control:gold"), benchmark=benchmark, sandbox="none"
        ),
        Home(tmp_path),
    )
    context, wanted = context_for(plan, workers=1, cores=2), plan.wanted[0]
    dialog = plan.dialog(wanted)
    item = ExecuteItem(
        ended_episode("live", dialog, Ending((), StopReason.FINISHED)),
        plan.problems[dialog.problem_id],
        dialog,
    )
    here = TestRun(turn=1, instruction_id="here", code="x = 1", tests=("assert x == 1",))
    tests = (here, replace(here, instruction_id="there", image=IMAGE))
    (answer,) = answers_of(plan.spec, tests)
    assert len({id_of(context, due.test, due.cases) for due in answer.due}) == 2

    def said(sandbox: Any) -> dict[str, tuple[Outcome, FailureReason | None]]:
        book = ProgramBook(ProgramFacts.of_run(context), sandbox, ReportCache(), threads=1)
        verdicts, _, _ = asyncio.run(decide(context, book, item, answer, {}))
        return {one.instruction_id: (one.outcome, one.reason) for one in verdicts}

    return said


def test_a_program_runs_in_its_own_image_and_the_others_in_the_sandbox_s(decided: Any) -> None:
    asked: list[str] = []
    assert decided(Imaged(asked)) == {
        "here": (Outcome.PASSED, None),
        "there": (Outcome.PASSED, None),
    }
    assert sorted(asked) == ["", IMAGE]


def test_a_sandbox_without_images_leaves_it_unscored(decided: Any) -> None:
    missing = (Outcome.UNSCORED, FailureReason.TOOLCHAIN_MISSING)
    assert decided(UnisolatedSandbox()) == {"here": (Outcome.PASSED, None), "there": missing}
