"""How the cost of a publication, of queries and of finding what is pending grows with what lies there:
`make bench-warehouse`.

    python -m tests.bench.warehouse [--small] [--folder DIR]

Nights of 100,000 rows of `turns` each are published onto 0, 10 and 100 earlier ones; the last lake
has over 10 million of them. Each publication is a process of its own, as `parley publish` is.
Between the measured ones, the rows of the nights before are loaded as ever, and their marts are
copies of the first night's: making those of a hundred nights would take most of the time.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from tests.bench.pending_lake import PendingLake, pending_seconds
from tests.bench.warehouse_lake import BenchLake, bytes_under

ROOT = Path(__file__).resolve().parents[2]
DIALOGS = 2_084
EARLIER = (0, 10, 100)
PENDING_EPISODES = 1_000_000
MEASURED = 3
"""Publications of one night each, of which the median is told: onto so many nights and the one or
two more of these.
"""
_QUERIES = 7
LEADERBOARD = (
    "select model, revision, metric, mean, ci_low, ci_high, n, n_unscored from leaderboard"
    " where metric = 'instruction_accuracy' order by mean desc, run_id limit 20"
)
TRANSCRIPT = "select turn, role, content from turns where episode_id = $episode order by position"


@dataclass(frozen=True)
class Measured:
    """One line of the table: `limit` is what it may be at most, where there is such."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    def __str__(self) -> str:
        said = (
            ""
            if self.limit is None
            else f"{'ok' if self.value <= self.limit else 'TOO MUCH':>10} (at most {self.limit:g})"
        )
        return f"  {self.what:<66}{self.value:>12,.3f} {self.unit:<6}{said}"


class Growth:
    """A home that grows night by night."""

    def __init__(self, home: Path, dialogs: int) -> None:
        self.home, self.lake, self.nights = home, BenchLake(home, dialogs), 0
        self.lake.write_dataset()

    def grow_to(self, nights: int) -> None:
        """Publish more nights in one go, their marts copied."""
        if self.nights >= nights:
            return
        for night in range(self.nights + 1, nights + 1):
            self.lake.write_night(night)
        self.nights = nights
        with marts_copied():
            publish_task(str(self.home))

    def publish_one(self, *, prepared: bool = True) -> dict[str, float]:
        """Seconds and peak memory of a process that publishes one more night, onto a disk at rest,
        as it is between two nights.

        Args:
            prepared: with the old file's copy made before, as a night does while its models answer.
        """
        self.nights += 1
        self.lake.write_night(self.nights)
        if prepared:
            in_process("prepare", self.home)
        os.sync()
        return in_process("publish", self.home)


@contextmanager
def marts_copied() -> Iterator[None]:
    """Marts of new runs are copies of those of the runs that were there first, each under its own
    id.
    """
    import warehouse.publication.publish
    from warehouse.connect import identifier

    def refresh(
        connection: Any, plan: Any, touched: Collection[str], _published: Collection[str]
    ) -> None:
        connection.execute(
            (
                "create or replace temporary table touched_runs as select unnest(?::varchar[]) "
                "as run_id"
            ),
            [[*touched]],
        )
        connection.execute(
            "create or replace temporary table twins as select run_id, (select min(run_id) "
            "from leaderboard) as twin"
            " from touched_runs"
        )
        for name in {identifier(mart.table): None for mart in plan.marts if mart.kind != "view"}:
            connection.execute(
                f"insert into {name} select mart.* replace (twins.run_id as run_id) from "
                f"{name} as mart"
                " inner join twins on mart.run_id = twins.twin order by all"
            )

    with patch.object(warehouse.publication.publish, "refresh_marts", refresh):
        yield


def in_process(task: str, *arguments: object) -> dict[str, float]:
    """What one of this module's tasks says when it runs alone in a process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.warehouse", "--task", task, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise SystemExit(f"{task} {arguments}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def publish_task(home: str) -> dict[str, float]:
    from tasks.planning.reporting.publishing import publish_to_warehouse
    from tasks.storage.home import Home

    report = publish_to_warehouse(Home.at(home))
    return {"seconds": report.seconds, "peak_mb": _peak_mb()}


def prepare_task(home: str) -> dict[str, float]:
    """Seconds of copying the warehouse ahead."""
    from warehouse.publication.copying import prepare_copy

    begun = time.perf_counter()
    prepare_copy(Path(home))
    return {"seconds": time.perf_counter() - begun}


def query_task(home: str) -> dict[str, float]:
    """Median milliseconds of the two queries, each on a connection of its own."""
    from warehouse.connect import query

    [(episode,)] = query(
        Path(home), "select episode_id from episodes order by hash(episode_id) limit 1"
    )[1]

    def leaderboard() -> int:
        return len(query(Path(home), LEADERBOARD)[1])

    def transcript() -> int:
        return len(query(Path(home), TRANSCRIPT, {"episode": episode})[1])

    assert leaderboard() > 0
    assert transcript() > 0
    return {
        "leaderboard": _median_ms(leaderboard),
        "transcript": _median_ms(transcript),
        "peak_mb": _peak_mb(),
    }


def pending_task(home: str) -> dict[str, float]:
    """Seconds to find what a night of 2,664 dialogues owes among the finished ones, and all of
    them.
    """
    return pending_seconds(Path(home)) | {"peak_mb": _peak_mb()}


TASKS: dict[str, Callable[[str], dict[str, float]]] = {
    "publish": publish_task,
    "prepare": prepare_task,
    "query": query_task,
    "owed": pending_task,
}


def _median_ms(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(_QUERIES):
        begun = time.perf_counter()
        action()
        taken.append(1000 * (time.perf_counter() - begun))
    return median(taken)


def _peak_mb() -> float:
    """Of this process; `ru_maxrss` would also count what its parent held when it was started."""
    [line] = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) / 1000


def measure(
    folder: Path, dialogs: int, earlier: Sequence[int], n_pending: int
) -> Iterator[Measured]:
    """All lines, as they are found."""
    growth = Growth(folder / "home", dialogs)
    first = peak = 0.0
    for nights in earlier:
        growth.grow_to(nights)
        published = [growth.publish_one() for _ in range(1 if nights == 0 else MEASURED)]
        seconds = median(one["seconds"] for one in published)
        peak = max(peak, *(one["peak_mb"] for one in published))
        first = first or seconds
        yield Measured(
            f"publish a night of {growth.lake.turn_rows_a_night:,} turns onto {nights} earlier",
            seconds,
            "s",
        )
        if nights:
            yield Measured(
                f"  as a multiple of the first, {nights} earlier", seconds / first, "x", 1.5
            )
            alone = growth.publish_one(prepared=False)["seconds"]
            yield Measured(
                "  by `parley publish` outside a night, which has to copy the old file first",
                alone,
                "s",
            )
            yield Measured("    as a multiple of the first", alone / first, "x")
    rows = growth.nights * growth.lake.turn_rows_a_night
    yield Measured("peak memory of these publications", peak, "MB")
    queries = in_process("query", growth.home)
    yield Measured(f"leaderboard query on {rows:,} turns", queries["leaderboard"], "ms", 100)
    yield Measured("a transcript by its episode's id", queries["transcript"], "ms", 100)
    yield Measured("peak memory of the queries", queries["peak_mb"], "MB")
    yield Measured("size of the lake", bytes_under([growth.home / "lake"]) / 1e6, "MB")
    yield Measured(
        "size of the warehouse", (growth.home / "warehouse.duckdb").stat().st_size / 1e6, "MB"
    )
    shutil.rmtree(growth.home)
    PendingLake(folder / "owed").write(n_pending)
    pending = in_process("owed", folder / "owed")
    yield Measured(
        f"what a night owes among {n_pending:,} finished episodes", pending["a_night"], "s", 2
    )
    yield Measured(
        f"what is pending of {n_pending:,} wanted among as many finished",
        pending["everything"],
        "s",
        2,
    )
    yield Measured("peak memory of finding it", pending["peak_mb"], "MB")


def main() -> None:
    """Print the table; exit code 1 where a figure is above its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.warehouse", description=__doc__)
    parser.add_argument(
        "--small",
        action="store_true",
        help="a look: a tenth of the size, 0, 2 and 10 earlier nights",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the data is made, and removed (5 GB; default: the system's)",
    )
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.task:
        print(json.dumps(TASKS[asked.task[0]](asked.task[1])))
        return
    size = (
        (DIALOGS // 10, (0, 2, 10), PENDING_EPISODES // 10)
        if asked.small
        else (DIALOGS, EARLIER, PENDING_EPISODES)
    )
    begun, missed = time.monotonic(), 0
    if asked.folder:
        asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="parley-bench-", dir=asked.folder) as folder:
        for line in measure(Path(folder), *size):
            print(line, flush=True)
            missed += line.limit is not None and line.value > line.limit
    print(f"  took {time.monotonic() - begun:.0f} s")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
