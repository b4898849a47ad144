"""`make bench-scale`: memory and time of whole commands on ever more dialogues, answered by
`control:gold`.

The dialogues have three turns each, as MathChat's follow-up questions have, and no programs. The
process tree of each command is sampled: the driver is the command's own process, and a worker is a
process that Dask's nanny started. A third process runs the quality checks and the publication.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tasks.benchmarks.registry import BENCHMARKS
from tasks.planning.dataset import write_staged
from tasks.planning.plan import plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from tests.bench.processes import ROOT, environment
from tests.bench.synthetic import write_mixed, write_plugin

SIZES = (2_000, 16_000, 100_000)
LOOK_EVERY_S = 0.2
TURNS, SAMPLES = 3, 10


def measure(n_dialogues: int, workers: int) -> str:
    """Run the whole command on so many dialogues; returns a row of the table.

    Raises:
        RuntimeError: the command failed; says what it wrote last.
    """
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile("w+") as err:
        data = Path(place) / "turns.json"
        write_mixed(data, n_dialogues, TURNS, TURNS)
        command = [
            sys.executable,
            "-P",
            "-m",
            "flows.cli",
            "run",
            "talk.static",
            "--data",
            str(data),
            "--model",
            "control:gold",
        ]
        command += ["--workers", str(workers), "--json"]
        environ = environment(
            {"PARLEY_HOME": f"{place}/home"}, write_plugin(Path(place) / "plugin")
        )
        used: dict[int, float] = {}
        started = time.monotonic()
        process = subprocess.Popen(
            command, env=environ, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=err
        )
        driver, peaks = psutil.Process(process.pid), [0.0, 0.0, 0.0]
        while process.poll() is None:
            with suppress(psutil.Error):  # a process ended between listing and reading
                for each in (driver, *driver.children(recursive=True)):
                    at = 0 if each == driver else _column_of(" ".join(each.cmdline()))
                    if at is not None:
                        peaks[at] = max(peaks[at], each.memory_info().rss)
                    used[each.pid] = sum(each.cpu_times()[:2])
            time.sleep(LOOK_EVERY_S)
        seconds = time.monotonic() - started
        if process.returncode:
            err.seek(0)
            raise RuntimeError(
                f"{n_dialogues} dialogues ended with {process.returncode}: {err.read()[-800:]}"
            )
    megabytes = " ".join(f"{peak / 2**20:>10.0f}" for peak in peaks)
    each_ms = [1000 * time_s / n_dialogues for time_s in (seconds, sum(used.values()))]
    return f"{n_dialogues:>9} {megabytes} {seconds:>8.1f} {each_ms[0]:>14.2f} {each_ms[1]:>14.2f}"


def _column_of(command: str) -> int | None:
    return 1 if "spawn_main" in command else 2 if "warehouse.checks.service" in command else None


def plan_many(n_dialogues: int, samples: int) -> str:
    """Plan a run of so many staged dialogues; returns how long it took to know what is pending."""
    with tempfile.TemporaryDirectory() as place:
        sys.path.insert(0, str(write_plugin(Path(place) / "plugin")))
        write_mixed(Path(place) / "turns.json", n_dialogues, TURNS, TURNS)
        benchmark, home = BENCHMARKS.load("talk"), Home(Path(place) / "home")
        version = benchmark.data.default_version
        write_staged(
            benchmark.data.stage(Path(place) / "turns.json", version),
            "talk",
            version,
            Lake(home.lake),
        )
        asked = BenchmarkRequest(name="talk.static", samples=samples)
        started, used = time.monotonic(), time.process_time()
        n_pending = len(
            plan_run(
                EvaluationRequest(model=ModelRequest(spec="control:gold"), benchmark=asked), home
            ).pending()
        )
        seconds, cpu = time.monotonic() - started, time.process_time() - used
    return (
        f"{n_pending:,} pending episodes of {n_dialogues:,} dialogues planned in {seconds:.1f} "
        f"s, {cpu:.1f} s of them CPU time"
    )


def main() -> None:
    """Measure each size in turn, then planning."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="numbers of dialogues")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--planned",
        type=int,
        default=1_000_000,
        help="wanted episodes of the run that is only planned",
    )
    asked = parser.parse_args()
    print(
        "dialogues  driver MB  worker MB  checks MB  seconds  ms a dialogue  CPU ms of it",
        flush=True,
    )
    rows = []
    for n_dialogues in asked.sizes:
        rows.append(measure(n_dialogues, asked.workers))
        print(rows[-1], flush=True)
    each_ms = [float(row.split()[-2]) for row in rows]
    print(
        f"a dialogue of the largest run costs {each_ms[-1] / each_ms[0]:.2f} times one of the first"
    )
    print(plan_many(asked.planned // SAMPLES, SAMPLES))


if __name__ == "__main__":
    main()
