"""A worker that was stopped, and comes back after its shard was given to another one, changes
nothing.
"""

import hashlib
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from schemas.dialog import Role
from schemas.episode import Episode, StopReason
from schemas.lake.rows import from_arrow
from tasks.converse import ConverseShards, context_for, settle
from tasks.execute import shard_of
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.journaling.dialogue_calls import read_unfinished
from tasks.storage.journaling.leases import shard_attempt
from tasks.storage.parquet_store import Lake
from tasks.storage.run_rows import EpisodeFiles, read_episodes
from tasks.worker.converse_shard import converse_shard
from tasks.worker.execute_shard import execute_shard
from tasks.worker.jobs import RunContext
from tasks.worker.process import close_run
from tests.crash.comparison import differences, tables
from tests.crash.night import ROOT, Counter, counting_server, write_plugin
from tests.tasks.staged_plan import stage
from tests.warehouse.small_lake import SmallLake
from warehouse.publication.publish import publish

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
N_EPISODES = 2
PLAYER = """
import os, pickle, signal, sys
from pathlib import Path
from tasks.worker.converse_shard import converse_shard
from tasks.worker.execute_shard import execute_shard
shard = pickle.loads(Path(sys.argv[1]).read_bytes())
play = converse_shard if type(shard).__name__ == "ConverseShard" else execute_shard
execution = sys.modules["tasks.worker.program_book"]
run_answer = execution.run_answer
def stopped_at_the_first(*arguments):
    execution.run_answer = run_answer
    os.kill(os.getpid(), signal.SIGSTOP)
    return run_answer(*arguments)
execution.run_answer = stopped_at_the_first
print("ready", flush=True)
try:
    print(play(shard).part)
except Exception as error:
    print(type(error).__name__)
"""


@pytest.fixture
def counter() -> Iterator[Counter]:
    with counting_server(max_seconds=600) as counter:
        yield counter


@pytest.fixture
def plan(
    home: Path, tmp_path: Path, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunPlan]:
    write_plugin(tmp_path / "plugin")
    monkeypatch.syspath_prepend(tmp_path / "plugin")
    request = EvaluationRequest(
        model=ModelRequest(spec=f"openai:mock@{counter.server.base_url}", revision="1"),
        benchmark=BenchmarkRequest(name="crash.six", limit=N_EPISODES),
    )
    plan = plan_run(request, Home(home))
    stage(plan)
    yield plan
    close_run(plan.run_id)


@contextmanager
def stopped(
    shard: Any, folder: Path, begun: Callable[[], bool] = lambda: False
) -> Iterator["subprocess.Popen[str]"]:
    """A worker process that plays the shard until `begun` says so, and is stopped there; at a
    program it stops by itself.
    """
    (folder / "shard").write_bytes(pickle.dumps(shard))
    zombie = subprocess.Popen(
        [sys.executable, "-c", PLAYER, str(folder / "shard")],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{folder / 'plugin'}:{ROOT}", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        cwd=folder,
    )
    try:
        assert zombie.stdout is not None
        assert zombie.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 60
        while not begun() and psutil.Process(zombie.pid).status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline, "the shard was not begun"
            time.sleep(0.002)
        zombie.send_signal(signal.SIGSTOP)
        while any(running_threads(zombie.pid)):  # until then it hears what the test does next
            assert time.monotonic() < deadline, "the worker was not stopped"
            time.sleep(0.002)
        yield zombie
    finally:
        zombie.kill()
        zombie.communicate()


def running_threads(pid: int) -> Iterator[bool]:
    """Whether each thread of a process may still run."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield (task / "stat").read_text().rpartition(") ")[2][0] not in "Tt"


def come_back(zombie: "subprocess.Popen[str]") -> str:
    """Let the stopped worker go on; what it says of its shard."""
    zombie.send_signal(signal.SIGCONT)
    return zombie.communicate(timeout=60)[0].strip()


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, by the digest of its content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def play(plan: RunPlan, context: RunContext, name: str) -> None:
    """What the driver does in a try, without its cluster: the shards of what is pending, one after
    another.
    """
    with shard_attempt(plan.home.tries(plan.run_id), name):
        for shard in ConverseShards(plan, replace(context, invocation=name), plan.pending()):
            converse_shard(shard)
    settle(plan)


def ids(plan: RunPlan) -> Sequence[str]:
    return [wanted.episode_id for wanted in plan.wanted]


def n_journaled(plan: RunPlan) -> int:
    """Answers of the model that are in the journal: the server may have sent one that its worker
    has not read yet.
    """
    unfinished = read_unfinished(plan.home.journal(plan.run_id)).values()
    return sum(step.role is Role.ASSISTANT for known in unfinished for step in known.steps)


def test_a_worker_that_comes_back_to_a_dialogue_changes_nothing(
    plan: RunPlan, counter: Counter, tmp_path: Path
) -> None:
    context = replace(context_for(plan, workers=1, cores=1), concurrency=48)
    tries, journal = plan.home.tries(plan.run_id), plan.home.journal(plan.run_id)
    with shard_attempt(tries, "night-0"):
        (shard,) = ConverseShards(plan, replace(context, invocation="night-0"), plan.pending())
        counter.server.holds_after = 2 * N_EPISODES
        with stopped(shard, tmp_path, lambda: n_journaled(plan) >= 2 * N_EPISODES) as zombie:
            counter.server.holds_after = None
            assert (
                max(len(known.steps) for known in read_unfinished(journal, ids(plan)).values()) >= 2
            )
            play(plan, context, "night-1")
            lake, rows = (
                contents(plan.lake.root),
                plan.episodes.rows(ids(plan)),
            )
            calls = counter.calls()
            assert come_back(zombie) == "LeaseLost"
    assert contents(plan.lake.root) == lake
    assert plan.episodes.rows(ids(plan)).equals(rows)
    assert read_unfinished(journal) == {}
    assert 6 * N_EPISODES <= calls <= counter.calls() <= 6 * N_EPISODES + N_EPISODES
    assert not plan.pending()


def test_a_worker_that_comes_back_to_a_program_does_not_replace_its_verdict(
    plan: RunPlan, tmp_path: Path
) -> None:
    context = replace(context_for(plan, workers=1, cores=1), concurrency=48)
    play(plan, context, "night-0")
    episodes = read_episodes(plan.lake, "crash", plan.keys["model"], ids(plan))
    tries = plan.home.tries(plan.run_id)
    with shard_attempt(tries, context.invocation):
        shard = shard_of(plan, context, (episodes[i] for i in ids(plan)))
        mark = tries / context.invocation / shard.name
        with stopped(shard, tmp_path) as zombie:
            assert mark.exists()
            assert execute_shard(shard).n_run == N_EPISODES
            verdicts = contents(plan.lake.root)
            assert come_back(zombie) == "LeaseLost"
    assert contents(plan.lake.root) == verdicts


def test_what_a_killed_worker_had_begun_to_write_goes_with_its_stage(plan: RunPlan) -> None:
    """Its command goes on with another worker, and may be the last one for a long time."""
    begun = plan.lake.folder("episodes", **plan.keys) / ".writing-1-0"
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"PAR1")
    settle(plan)
    assert not begun.exists()


def test_a_second_end_of_an_episode_changes_neither_lake_nor_warehouse(tmp_path: Path) -> None:
    """What a worker without such a mark, or one in the instant after it looked, could still
    leave.
    """
    lake = SmallLake(tmp_path).write_all()
    publish(tmp_path)
    run = lake.alpha_2
    ids = [run.episode_id(problem, sample) for problem in ("P1", "P2", "P3") for sample in (0, 1)]
    rows, shown = (
        EpisodeFiles(Lake(tmp_path / "lake"), "codeif", run.subject.label).rows(ids),
        tables(tmp_path),
    )
    finished = next(
        row
        for row in from_arrow(rows, Episode)
        if row.stop_reason is StopReason.FINISHED and row.attempt == 2
    )
    for n, (attempt, later) in enumerate(
        ((1, "2025-01-01T00:00:00Z"), (2, "2027-01-01T00:00:00Z"))
    ):
        steps = tuple(
            step.model_copy(update={"content": "from a zombie"}) for step in finished.steps
        )
        row = finished.model_copy(update={"attempt": attempt, "finished_at": later, "steps": steps})
        run.write("episodes", [row], f"0-zombie-{n}")
        run.write("episodes", [row], f"z-zombie-{n}")
    assert EpisodeFiles(Lake(tmp_path / "lake"), "codeif", run.subject.label).rows(ids).equals(rows)
    publish(tmp_path)
    raw = ("episode_rows", "turn_rows")
    assert [d for d in differences(tables(tmp_path), shown) if not d.startswith(raw)] == []
