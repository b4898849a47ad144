"""Judges and scores of a long dialogue are shown what was said before its own turns, of which its
episode holds none.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.dialog import Role
from schemas.lake.rows import PackedRows
from schemas.verdict import TestVerdict
from tasks.benchmarks.advanced import JudgeRequest, Judging
from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import ConverseStage, context_for
from tasks.driver.judging import Judgements
from tasks.judging.rubric import JudgeRun
from tasks.language.chat_model import Message
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.score import score_requests
from tasks.stage import run_stage
from tasks.storage.home import Home
from tasks.storage.run_rows import verdict_table
from tests.faults.nights import local_client
from tests.tasks.benchmarks import long_talk
from tests.tasks.benchmarks.judged import WHOLE
from tests.tasks.benchmarks.long_talk import N_DIALOGS
from tests.tasks.staged_plan import stage

RUBRIC = replace(WHOLE, reads_verdicts=False)


def judge_runs(request: JudgeRequest) -> Sequence[JudgeRun]:
    """All that was said before."""
    return (
        JudgeRun(
            0,
            request.rubric,
            (Message(Role.USER, "\n".join(turn.content or "" for turn in request.context)),),
        ),
    )


JUDGED = replace(
    long_talk.BENCHMARK,
    settings={"recall": replace(long_talk.BENCHMARK.settings["recall"], rubrics=(RUBRIC.name,))},
    judging=Judging({RUBRIC.name: RUBRIC}, judge_runs),
)


def test_each_is_shown_as_much_of_the_context_as_its_dialogue_begins_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, long_talk.NAME, f"{long_talk.__name__}:BENCHMARK")
    monkeypatch.setattr(long_talk, "BENCHMARK", JUDGED)
    silent = ModelRequest(spec="control:empty")
    benchmark = BenchmarkRequest(name="long_talk.recall", dataset_version="sample")
    plan = plan_run(
        EvaluationRequest(model=silent, judges={"": silent}, benchmark=benchmark), Home(tmp_path)
    )
    stage(plan)
    with local_client() as client:
        stage(plan)
        run_stage(ConverseStage(plan, context_for(plan, workers=1, cores=1), client))
    episodes = plan.episodes.packed(plan.members.ids)
    wanted = Judgements(plan).wanted(episodes, {}, all_rubrics=True)
    shown = {one.job.problem_id: one.job.messages[0].content.splitlines() for one in wanted}
    assert len(shown) == N_DIALOGS
    first, second = shown["q0000"], shown["q0001"]
    assert first[:3] == ["On day 1 I saw bird 1.", "Bird 1, noted.", ""]
    assert second[:5] == [*first[:2], "On day 2 I saw bird 2.", "Bird 2, noted.", ""]
    played = [
        one
        for request in score_requests(
            plan,
            episodes,
            PackedRows[TestVerdict].of_tables(
                "test_verdicts", [verdict_table(plan.lake, **plan.keys)]
            ),
        )
        for one in request.played
    ]
    assert (
        [len(one.context) for one in played]
        == [one.dialog.context_turns for one in played]
        == [2, 4, 6, 8, 10, 12]
    )
