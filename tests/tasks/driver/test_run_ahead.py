"""Programs of finished episodes run at low priority while others are being played; nothing else
changes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sandbox.backends.unisolated import UnisolatedSandbox
from sandbox.host.resource_limits import niceness
from sandbox.registry import SANDBOXES
from schemas.errors import SandboxUnavailable
from schemas.lake.rows import from_arrow
from schemas.run import Limits
from schemas.verdict import Outcome, TestVerdict
from tasks import stage as stage_module
from tasks.benchmarks.registry import BENCHMARKS
from tasks.converse import ConverseShards, ConverseStage, context_for, settle
from tasks.execute import ExecuteStage, RunAhead, episode_groups
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.stage import StageResult, run_stage
from tasks.storage.home import Home
from tasks.storage.journaling.leases import shard_attempt
from tasks.storage.run_rows import verdict_table
from tasks.worker import process
from tasks.worker.converse_shard import converse_shard
from tasks.worker.jobs import ConverseShard, RunContext, ShardResult
from tasks.worker.process import RunState
from tests.faults.nights import local_client
from tests.tasks.staged_plan import stage
from tests.tasks.worker import coding_rounds
from tests.tasks.worker.coding_rounds import MODULE, NAME

SAMPLES = 8
N_GROUPS = 2
"""Of 2 problems with 2 dialogs each and so many samples: 16 episodes of one round to a shard."""


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_client() as found:
        yield found


@pytest.fixture(autouse=True)
def _known_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS.built_in, NAME, f"{MODULE}:BENCHMARK")
    monkeypatch.setattr(stage_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(process, "_worker", None)  # with the reports of the test before


def plan_of(home: Path, sandbox: str = "none", samples: int = SAMPLES) -> RunPlan:
    benchmark = BenchmarkRequest(name=f"{NAME}.told", samples=samples)
    asked = EvaluationRequest(
        model=ModelRequest(spec="control:gold"), benchmark=benchmark, sandbox=sandbox
    )
    plan = plan_run(asked, Home(home))
    stage(plan)
    return plan


def ids_of(group: Sequence[str]) -> pa.ChunkedArray:
    return pa.chunked_array([group], pa.string())


def parts(plan: RunPlan) -> set[str]:
    return {part.stem for part in plan.lake.parts("test_verdicts", **plan.keys)}


def executed(
    plan: RunPlan, context: RunContext, client: Any
) -> tuple[StageResult, dict[tuple[str, int], Outcome]]:
    ids = [w.episode_id for w in plan.members]
    episodes = plan.episodes.packed(ids)
    done = run_stage(ExecuteStage(plan, context, client, episodes))
    return done, {
        (v.episode_id, v.turn): v.outcome
        for v in from_arrow(verdict_table(plan.lake, **plan.keys), TestVerdict)
    }


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_programs_of_a_finished_group_are_decided_before_the_next_is_played(
    home: Path, client: Any
) -> None:
    plan = plan_of(home)
    context = replace(context_for(plan, workers=1, cores=2), concurrency=1)
    first, second = episode_groups(plan)
    pending = plan.pending()
    with (
        shard_attempt(plan.home.tries(plan.run_id), context.invocation),
        RunAhead(plan, context, client, pending.ids.to_pylist()) as ahead,
    ):
        for shard in ConverseShards(plan, context, pending.among(ids_of(first))):
            ahead.take(converse_shard(shard))
        wait_for(lambda: len(parts(plan)) == 1, "no program ran while there was more to play")
        for shard in ConverseShards(plan, context, pending.among(ids_of(second))):
            ahead.take(converse_shard(shard))
    settle(plan)
    decided, n_ahead = parts(plan), ahead.result.n_run
    done, outcomes = executed(plan, context, client)
    assert n_ahead >= 1
    assert done.n_run + n_ahead == N_GROUPS, (
        "equal programs are run once, and none is run by the next stage again"
    )
    assert len(decided) in (1, N_GROUPS)
    assert len(outcomes) == SAMPLES * 4
    assert set(outcomes.values()) == {Outcome.FAILED}


@pytest.mark.slow
def test_a_night_runs_ahead_and_its_next_stage_does_the_rest(
    home: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(home)
    _, second = episode_groups(plan)

    def last_of_all(shard: ConverseShard) -> ShardResult:
        if shard.episodes[-1].episode_id == second[-1]:
            wait_for(lambda: parts(plan), "no program ran while there was more to play")
        return converse_shard(shard)

    monkeypatch.setattr(ConverseStage, "run_shard", staticmethod(last_of_all))
    context = context_for(plan, workers=1, cores=2)
    conversed = run_stage(ConverseStage(plan, context, client))
    done, outcomes = executed(plan, context, client)
    assert conversed.n_run >= 1
    assert conversed.n_run + done.n_run == N_GROUPS
    assert (len(outcomes), set(outcomes.values())) == (SAMPLES * 4, {Outcome.FAILED})


class Broken(UnisolatedSandbox):
    """A sandbox that cannot run anything."""

    def fingerprint(self) -> str:
        return "broken"

    def session(self, limits: Limits, *, keep_files: bool = False) -> Any:
        raise SandboxUnavailable("no sandbox today; install one")


def test_a_sandbox_that_fails_is_tried_once_and_left_to_the_next_stage_which_says_so(
    home: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SANDBOXES.built_in, "broken", f"{__name__}:Broken")
    plan = plan_of(home, "broken", samples=4 * SAMPLES)
    context = replace(context_for(plan, workers=1, cores=1), concurrency=1)
    groups, pending = episode_groups(plan), plan.pending()
    with (
        shard_attempt(plan.home.tries(plan.run_id), context.invocation),
        RunAhead(plan, context, client, pending.ids.to_pylist()) as ahead,
    ):
        for group in groups[:2]:
            for shard in ConverseShards(plan, context, pending.among(ids_of(group))):
                ahead.take(converse_shard(shard))
            wait_for(lambda: parts(plan), "nothing was tried")
    assert len(parts(plan)) <= ahead.most
    assert all(name.endswith("-infra") for name in parts(plan))
    settle(plan)
    done, outcomes = executed(plan, context, client)
    assert "no sandbox today; install one" in (done.error or "")
    assert set(outcomes.values()) == {Outcome.INFRA}


def test_a_group_with_episodes_of_an_earlier_night_is_left_to_the_next_stage(
    home: Path, client: Any
) -> None:
    plan = plan_of(home)
    context = context_for(plan, workers=1, cores=2)
    pending, groups = plan.pending(), episode_groups(plan)
    with (
        shard_attempt(plan.home.tries(plan.run_id), context.invocation),
        RunAhead(plan, context, client, pending[1:].ids.to_pylist()) as ahead,
    ):
        for shard in ConverseShards(plan, context, pending):
            ahead.take(converse_shard(shard))
        wait_for(lambda: parts(plan), "no program ran while there was more to play")
    [part] = plan.lake.parts("test_verdicts", **plan.keys)
    verdicts = plan.lake.read_part("test_verdicts", TestVerdict, part)
    assert {verdict.episode_id for verdict in verdicts} == set(groups[1])


class Starved(UnisolatedSandbox):
    """A sandbox whose programs of low priority wait for a processor beyond their limit."""

    def fingerprint(self) -> str:
        return "starved"

    def session(self, limits: Limits, *, keep_files: bool = False) -> Any:
        wall_s = 2.0 if niceness() else limits.wall_s
        return super().session(limits.model_copy(update={"wall_s": wall_s}), keep_files=keep_files)


WAITS = "while os.nice(0) == 19:\n    time.sleep(0.1)"
GIVES_UP = "if os.nice(0) == 19:\n    time.sleep(1.2)\n    raise TimeoutError"


@pytest.mark.slow
@pytest.mark.parametrize("starved", [WAITS, GIVES_UP])
def test_a_program_that_ran_out_of_time_beside_dialogues_runs_again_in_the_next_stage(
    home: Path, client: Any, monkeypatch: pytest.MonkeyPatch, starved: str
) -> None:
    answer = f"import os, time\n{starved}\ndef solve(x):\n    return x + 1"
    monkeypatch.setitem(coding_rounds.ANSWERS, "wrong at first", (answer,))
    monkeypatch.setitem(SANDBOXES.built_in, "starved", f"{__name__}:Starved")
    monkeypatch.setattr(RunState, "is_playing", True)
    plan = plan_of(home, "starved", samples=1)
    context = context_for(plan, workers=1, cores=2)
    conversed = run_stage(ConverseStage(plan, context, client))
    # Two equal answers that low priority may have failed, and one that never compiles.
    assert (conversed.n_run, parts(plan)) == (3, set())
    done, outcomes = executed(plan, context, client)
    assert done.n_run == 1
    assert sorted(outcomes.values()) == [Outcome.FAILED] * 2 + [Outcome.PASSED] * 2
