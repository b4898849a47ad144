"""A run on the bundled sample in this process: a night's stages on one Dask worker of threads,
without Prefect's server.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from schemas.episode import Episode, Score, StopReason
from schemas.lake.records import RunEpisode, RunRecord
from schemas.lake.rows import PackedRows
from schemas.verdict import Outcome, TestVerdict
from tasks import stage as stage_module
from tasks.benchmarks.codeif.settings import FUNCTIONALITY_EXTENSION
from tasks.converse import Conversed, ConverseStage, context_for
from tasks.execute import ExecuteStage
from tasks.language.access import CallPolicy
from tasks.planning.participants import access
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.reporting.report import with_counts, withheld_because
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.score import score
from tasks.stage import run_stage
from tasks.storage.home import Home
from tasks.storage.run_rows import verdict_table
from tests.fixtures.model_server import ModelServer
from tests.tasks.planning.test_why_rerun import record
from tests.tasks.staged_plan import stage

METRICS_OF_EACH_TURN = 4
QUICK: dict[str, Any] = {
    "max_tries": 3,
    "backoff_s": 0.01,
    "max_backoff_s": 0.02,
    "max_retry_after_s": 0.1,
}


@contextmanager
def local_client() -> Iterator[Any]:
    """A Dask client whose one worker is this process."""
    from distributed import Client

    with Client(
        processes=False,
        n_workers=1,
        threads_per_worker=8,
        dashboard_address=None,
        set_as_default=False,
    ) as client:
        yield client


@dataclass(frozen=True)
class PlayedNight:
    """A run after its stages, and what the server saw of it."""

    plan: RunPlan
    conversed: Conversed
    episodes: PackedRows[Episode]
    verdicts: PackedRows[TestVerdict]
    scores: PackedRows[Score]
    requests: int

    @property
    def withheld_because(self) -> str | None:
        """Why the run must not be published at a limit of 1% of faulty episodes; None where it may
        be.
        """
        counts, n_faulty = self.counted
        return withheld_because(counts, n_faulty, 0.01, ())

    @property
    def counted(self) -> tuple[RunRecord, int]:
        """A record with the run's counts, and its number of faulty episodes."""
        blank, n_wanted = record(self.plan.spec), len(self.plan.members)
        return with_counts(blank, n_wanted, self.episodes, self.scores)[:2]


@dataclass(frozen=True)
class Night:
    """A run that has not begun; its seed tells it from the others of its home."""

    client: Any
    home: Path
    seed: int

    def play(
        self, server: ModelServer, *, limit: int = 2, timeout_s: float = 20.0, concurrency: int = 4
    ) -> PlayedNight:
        """Converse, execute and score what is pending."""
        request = EvaluationRequest(
            model=ModelRequest(
                spec=f"openai:mock@{server.base_url}", timeout_s=timeout_s, revision="r1"
            ),
            benchmark=BenchmarkRequest(
                name="codeif.static", dataset_version="sample", limit=limit, seed=self.seed
            ),
            sandbox="none",
            concurrency=concurrency,
            workers=1,
        )
        plan, before = plan_run(request, Home(self.home)), len(server.bodies)
        context = context_for(plan, workers=1, cores=2)
        stage(plan)
        done = run_stage(ConverseStage(plan, context, self.client))
        episodes = plan.episodes.packed(plan.members.ids)
        run_stage(ExecuteStage(plan, context, self.client, episodes))
        verdicts = PackedRows[TestVerdict].of_tables(
            "test_verdicts", [verdict_table(plan.lake, **plan.keys)]
        )
        scores = score(plan, episodes, verdicts)
        return PlayedNight(plan, done, episodes, verdicts, scores, len(server.bodies) - before)


def assert_nothing_is_dropped_or_made_zero(played: PlayedNight) -> None:
    """Every wanted episode is there, every turn has all its scores, and what has no verdict of a
    program has no value.
    """
    plan = played.plan
    wanted = {w.episode_id for w in plan.wanted}
    assert {e.episode_id for e in played.episodes} == wanted
    assert {
        row.episode_id for row in plan.lake.read("run_episodes", RunEpisode, **plan.keys)
    } == wanted
    due = sum(
        1 if name == FUNCTIONALITY_EXTENSION else METRICS_OF_EACH_TURN
        for w in plan.wanted
        for name in plan.dialog(w).instruction_ids
    )
    n = sum(s.value is not None for s in played.scores)
    n_unscored = sum(
        s.unscored_reason is not None and s.unscored_reason.is_fault for s in played.scores
    )
    n_not_applicable = sum(
        s.unscored_reason is not None and not s.unscored_reason.is_fault for s in played.scores
    )
    assert n + n_unscored + n_not_applicable == due == len(played.scores)
    decided = {
        (v.episode_id, v.turn)
        for v in played.verdicts
        if v.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT)
    }
    answered = {
        (e.episode_id, s.turn)
        for e in played.episodes
        for s in e.messages
        if s.role.value == "assistant"
    }
    refused = {e.episode_id for e in played.episodes if e.stop_reason is StopReason.REFUSED}
    assert {one for one in decided if one[0] not in refused} == {
        one for one in answered if one[0] not in refused
    }
    for s in played.scores:
        if (s.episode_id, s.turn) not in answered and s.episode_id not in refused:
            assert s.value is None, s


def assert_calls_are_counted(played: PlayedNight) -> None:
    """Each request that was sent stands in the run's count, answered or not."""
    assert played.conversed.model_calls == played.requests


def hurry(monkeypatch: pytest.MonkeyPatch, **policy: Any) -> None:
    """Few and short pauses between tries and attempts: nothing else of how endpoints are called
    changes.
    """
    monkeypatch.setattr(access, "CallPolicy", partial(CallPolicy, **{**QUICK, **policy}))
    monkeypatch.setattr(stage_module, "RETRY_DELAY_S", 0.01)


def stops(played: PlayedNight) -> Counter[StopReason]:
    """How many episodes ended for which reason."""
    return Counter(episode.stop_reason for episode in played.episodes)
