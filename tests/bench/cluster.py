"""A night far larger than this machine, by simulation: where its driver saturates.

Run it with `python -m tests.bench.cluster`.

100 checkpoints x 5 benchmarks x 1,000 dialogues of six turns at 1 s, on 1, 16 and 256 worker
processes. The simulation plays a fifth of the checkpoints, since a night is as busy in its middle
throughout, and multiplies. It deals shards as the driver does (`shard_size`, `SHARDS_IN_FLIGHT`,
`RUNS_AT_ONCE`) and charges what was measured: costs with their source below, scheduler messages by
a real Dask cluster of one worker, bytes by pickling dialogues of CodeIF's sample. The figures are
in `docs/explanation/scale.md`.
"""

import pickle
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from inspect import iscoroutinefunction
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flows.night.run_queue import RUNS_AT_ONCE
from flows.orchestration.artifacts import _EVERY_S as ARTIFACT_EVERY_S
from tasks.converse import ConverseShards, context_for
from tasks.driver.fan_out import SHARDS_IN_FLIGHT, shard_size
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home

N_RUNS, N_DIALOGUES, N_TURNS = 100 * 5, 1_000, 6
N_PLAYED = N_RUNS // 5
LATENCY_S, CONCURRENCY = 1.0, 256
N_AHEAD = 8
"""Shards that wait in each worker (DECISIONS 65)."""
STAGES = (
    "stage",
    "converse",
    "execute",
    "score",
    "check dialogs",
    "check episodes",
    "check scores",
)
"""Prefect tasks of a run whose metrics no judge reads."""
STATES = 3
"""Events of a Prefect task run or flow run: pending, running, completed."""


@dataclass(frozen=True)
class Costs:
    """Processor seconds."""

    turn: float = 14.0 / 12_000
    """Of a worker: 12,000 turns in 14.0 s (DECISIONS 65)."""
    worker_shard: float = 0.015
    driver_shard: float = 0.015 + 0.0016
    """Its part is read again (`SHARDS_IN_FLIGHT`); a Dask future takes 1.6 ms."""
    driver_dialogue: float = (105 - 35) / (32_000 - 8_000) - (0.015 + 0.0016) / 32
    """Plan, checks, scores: from 8,000 to 32,000 dialogues of one run, the driver's processor time
    went from 35 to 105 s.
    """


@dataclass(frozen=True)
class Night:
    """What a simulated night took."""

    n_workers: int
    wall_s: float
    ideal_s: float
    """By the endpoints' latency and concurrency, or by the workers' processors, whichever takes
    longer.
    """
    driver_busy: float
    worker_busy: float
    n_shards: int
    shard_size: int


@dataclass
class _Run:
    waiting: list[deque[int]]
    """By worker: dialogues of each shard that the driver has not sent."""
    at_worker: list[deque[int]]
    n_active: list[int]
    n_open: int = 0


@dataclass
class _Clock:
    now: float = 0.0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: Any = field(default_factory=count)

    def at(self, time: float, event: Callable[[], None]) -> None:
        heappush(self.events, (time, next(self.numbers), event))

    def run(self) -> None:
        while self.events:
            self.now, _, event = heappop(self.events)
            event()


class _Simulation:
    """One driver process, which does one thing after another, and workers whose dialogues share a
    processor.
    """

    def __init__(self, n_workers: int, costs: Costs, runs_at_once: int, n_drivers: int) -> None:
        self.n_workers, self.costs, self.runs_at_once = n_workers, costs, runs_at_once
        self.clock = _Clock()
        self.driver_free, self.driver_s, self.worker_s = [0.0] * n_drivers, 0.0, 0.0
        self.worker_free = [0.0] * n_workers
        self.n_shards, self.n_begun = 0, 0
        slots = max(1, CONCURRENCY // n_workers)
        self.size = shard_size(slots, N_DIALOGUES, N_DIALOGUES * N_TURNS, n_workers)
        self.slots = slots

    def play(self) -> None:
        for _ in range(min(self.runs_at_once, N_PLAYED)):
            self.begin_run()
        self.clock.run()

    def drive(self, driver: int, cost: float, then: Callable[[], None]) -> None:
        """Queue work of a driver process."""
        self.driver_free[driver] = max(self.driver_free[driver], self.clock.now) + cost
        self.driver_s += cost
        self.clock.at(self.driver_free[driver], then)

    def begin_run(self) -> None:
        if self.n_begun == N_PLAYED:
            return
        driver = self.n_begun % len(self.driver_free)
        self.n_begun += 1
        hands = [
            len(range(worker, N_DIALOGUES, self.n_workers)) for worker in range(self.n_workers)
        ]
        waiting = [deque(_shards(n, self.size)) for n in hands]
        empty = [deque[int]() for _ in hands]
        run = _Run(waiting, empty, [0] * self.n_workers, sum(map(len, waiting)))
        self.n_shards += run.n_open

        def send_all() -> None:
            for worker in range(self.n_workers):
                for _ in range(SHARDS_IN_FLIGHT + N_AHEAD):
                    self.send(run, driver, worker)

        self.drive(
            driver, self.costs.driver_dialogue * N_DIALOGUES / 2, send_all
        )  # half before, half with the results

    def send(self, run: _Run, driver: int, worker: int) -> None:
        if run.waiting[worker]:
            size = run.waiting[worker].popleft()

            def arrive() -> None:
                run.at_worker[worker].append(size)
                self.start(run, driver, worker)

            self.drive(driver, self.costs.driver_shard / 2, arrive)

    def start(self, run: _Run, driver: int, worker: int) -> None:
        if not run.at_worker[worker] or run.n_active[worker] + run.at_worker[worker][0] > max(
            self.slots, run.at_worker[worker][0]
        ):
            return
        size = run.at_worker[worker].popleft()
        run.n_active[worker] += size
        cost = size * N_TURNS * self.costs.turn + self.costs.worker_shard
        self.worker_s += cost
        self.worker_free[worker] = max(self.worker_free[worker], self.clock.now) + cost
        end = max(self.clock.now + N_TURNS * LATENCY_S, self.worker_free[worker])
        self.clock.at(end, lambda: self.finish(run, driver, worker, size))
        self.start(run, driver, worker)

    def finish(self, run: _Run, driver: int, worker: int, size: int) -> None:
        run.n_active[worker] -= size
        self.start(run, driver, worker)

        def received() -> None:
            self.send(run, driver, worker)
            run.n_open -= 1
            if run.n_open == 0:
                self.begin_run()

        self.drive(
            driver, self.costs.driver_shard / 2 + size * self.costs.driver_dialogue / 2, received
        )


def _shards(n: int, size: int) -> list[int]:
    n_shards = -(-n // size)
    return [n // n_shards + (number < n % n_shards) for number in range(n_shards)] if n else []


def simulate(
    n_workers: int, costs: Costs | None = None, runs_at_once: int = RUNS_AT_ONCE, n_drivers: int = 1
) -> Night:
    """Play the night on `n_workers` processes, driven by `n_drivers` processes that share its
    runs.
    """
    simulation = _Simulation(n_workers, costs or Costs(), runs_at_once, n_drivers)
    simulation.play()
    wall_s, costs = simulation.clock.now, simulation.costs
    by_model = N_PLAYED / runs_at_once * N_DIALOGUES / CONCURRENCY * N_TURNS * LATENCY_S
    by_workers = N_PLAYED * N_DIALOGUES * N_TURNS * costs.turn / n_workers
    return Night(
        n_workers,
        wall_s * N_RUNS / N_PLAYED,
        max(by_model, by_workers) * N_RUNS / N_PLAYED,
        simulation.driver_s / wall_s / n_drivers,
        simulation.worker_s / wall_s / n_workers,
        simulation.n_shards * N_RUNS // N_PLAYED,
        simulation.size,
    )


def bytes_of_a_dialogue() -> float:
    """Mean size of a dialogue's part of a shard, over CodeIF's sample."""
    with TemporaryDirectory() as folder:
        benchmark = BenchmarkRequest(name="codeif.static", dataset_version="sample")
        plan = plan_run(
            EvaluationRequest(benchmark=benchmark, model=ModelRequest(spec="control:gold")),
            Home(Path(folder)),
        )
        shards = ConverseShards(plan, context_for(plan, workers=1, cores=1), plan.pending())
        jobs = [job for shard in shards for job in shard.episodes]
        return sum(len(pickle.dumps(job)) for job in jobs) / len(jobs)


def scheduler_messages(n_shards: int = 200, n_bytes: int = 100_000) -> tuple[float, Counter[str]]:
    """Count what Dask's scheduler sends and gets for a shard, on a cluster of one worker."""
    import distributed

    make_cluster: Any = distributed.LocalCluster
    seen: Counter[str] = Counter()
    with (
        make_cluster(
            n_workers=1, threads_per_worker=8, dashboard_address=None, processes=False
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.submit(len, b"").result()
        scheduler: Any = cluster.scheduler
        send_all = scheduler.send_all

        def counted_send(
            client_msgs: dict[str, list[Any]], worker_msgs: dict[str, list[Any]]
        ) -> None:
            for messages in (*client_msgs.values(), *worker_msgs.values()):
                seen.update(f"sent {message['op']}" for message in messages)
            send_all(client_msgs, worker_msgs)

        def counted(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
            def handle(*args: Any, **kwargs: Any) -> Any:
                seen[f"got {name}"] += 1
                return handler(*args, **kwargs)

            async def handle_later(*args: Any, **kwargs: Any) -> Any:
                return await handle(*args, **kwargs)

            return handle_later if iscoroutinefunction(handler) else handle

        scheduler.send_all = counted_send
        for handlers in (scheduler.stream_handlers, scheduler.handlers):
            for name in ("update-graph", "task-finished", "client-releases-keys", "gather"):
                if name in handlers:
                    handlers[name] = counted(name, handlers[name])
        for number in range(n_shards):
            client.submit(len, bytes(n_bytes), key=f"shard-{number}").result()
    return sum(seen.values()) / n_shards, seen


def _print_nights(title: str, nights: Sequence[Night]) -> None:
    print(f"\n{title}\n")
    print(
        "| workers | wall | share of the ideal | driver busy | workers busy | dialogues a "
        "shard | shards | shards/s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for n in nights:
        print(
            f"| {n.n_workers} | {n.wall_s / 60:.0f} min | {n.ideal_s / n.wall_s:.2f} | "
            f"{n.driver_busy:.2f} | {n.worker_busy:.2f}"
            f" | {n.shard_size} | {n.n_shards:,} | {n.n_shards / n.wall_s:.1f} |",
            flush=True,
        )


def main() -> None:
    """Print the nights as they are, with each change that would move the limit, and what Dask and
    Prefect have to carry.
    """
    from distributed.scheduler import heartbeat_interval

    sizes = (1, 16, 256)
    nights = [simulate(n) for n in sizes]
    _print_nights("As it is", nights)
    light = replace(Costs(), driver_dialogue=0.0, driver_shard=0.0016)
    _print_nights(
        "Workers check and score what they play; the driver gets ids",
        [simulate(n, light) for n in sizes],
    )
    _print_nights(
        "Eight drivers, each with 16 runs at once",
        [simulate(n, runs_at_once=128, n_drivers=8) for n in sizes],
    )
    dialogue, (messages, kinds) = bytes_of_a_dialogue(), scheduler_messages()
    print(
        f"\nA dialogue of CodeIF's sample: {dialogue:,.0f} bytes. Messages a shard: "
        f"{messages:.1f} ({dict(kinds)})\n"
    )
    print(
        "| workers | bytes a shard | scheduler messages/s, of them heartbeats | Prefect "
        "events | artifact updates/s |"
    )
    print("| --- | --- | --- | --- | --- |")
    events = N_RUNS * STATES * (len(STAGES) + 1)
    for night in nights:
        beats = night.n_workers / heartbeat_interval(night.n_workers)
        a_second = messages * night.n_shards / night.wall_s + beats
        updates = RUNS_AT_ONCE / ARTIFACT_EVERY_S
        size = f"{dialogue * night.shard_size:,.0f}"
        print(
            f"| {night.n_workers} | {size} | {a_second:.0f}, {beats:.0f} | {events:,} | "
            f"{updates:.1f} |"
        )


if __name__ == "__main__":
    main()
