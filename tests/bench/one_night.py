"""One night of the product, timed stage by stage: run as a process of its own, prints one line of
JSON.

The whole path, as the command line takes it: plan, Prefect server, Dask workers, journal, Parquet,
checks, publication.
"""

import argparse
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from flows.night.reporting.progress import Board


class TimedBoard(Board):
    """Notes when each stage begins, and the processor time that this process and all below it have
    used by then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[tuple[str, float, float]] = []
        self._used: dict[int, float] = {}
        self.programs_ahead = 0
        """Programs that were decided while dialogues were played."""
        self.answers = self.runs = 0
        """Answers that were tested so far, and sandbox runs that it took."""

    def stage(self, title: str, stage: str, total: int = 0, unit: str = "episodes") -> None:
        self.mark(stage)
        super().stage(title, stage, total, unit)

    def report(self, progress: Mapping[str, Any]) -> None:
        """Notes also what of the next stage is done in this one."""
        if (progress["stage"], self._latest.stage) == ("execute", "converse"):
            self.programs_ahead += progress["programs"]
        self.answers += progress["answers"]
        self.runs += progress["runs"]
        super().report(progress)

    def mark(self, name: str) -> None:
        """Begin a stage of that name."""
        self.marks.append((name, time.monotonic(), self._cpu_s()))

    def _cpu_s(self) -> float:
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            try:
                used = process.cpu_times()
            except psutil.Error:  # it has ended: what was last seen of it counts
                continue
            self._used[process.pid] = used.user + used.system
        return sum(self._used.values())

    def stages(self) -> list[dict[str, Any]]:
        """Name, seconds and processor seconds of each stage, in order; the last mark ends the last
        of them.
        """
        following = zip(self.marks, self.marks[1:], strict=False)
        return [
            {"stage": name, "wall_s": end - at, "cpu_s": used - before}
            for (name, at, before), (_, end, used) in following
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dataset-version", default="current")
    parser.add_argument("--sandbox", default="instant")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--began",
        type=float,
        required=True,
        help="time.monotonic() of whoever started this process",
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="no programs beside dialogues: the processor time of each can be told",
    )
    asked = parser.parse_args()
    if asked.apart:
        from tasks import execute  # at the top, each worker would import Prefect with this script

        execute.RunAhead.begin = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue]
    board = TimedBoard()
    board.marks.append(("start Python", asked.began, 0.0))
    board.mark("plan")
    from flows.night.invocation import run_night
    from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
    from tasks.storage.home import find_home

    request = EvaluationRequest(
        model=ModelRequest(spec=f"openai:mock@{asked.base_url}", revision="bench"),
        benchmark=BenchmarkRequest(
            name=asked.benchmark, data=str(asked.data), dataset_version=asked.dataset_version
        ),
        sandbox=asked.sandbox,
        concurrency=asked.in_flight,
        workers=asked.workers,
    )
    outcome = run_night(find_home(environ=os.environ), [request], board)
    board.mark("end")
    [report] = outcome.reports
    print(
        json.dumps(
            {
                "status": report.status,
                "reason": report.reason,
                "calls": report.work.model_calls if report.work else None,
                "owed": report.pending,
                "programs_ahead": board.programs_ahead,
                "answers": board.answers,
                "runs": board.runs,
                "stages": board.stages(),
            }
        )
    )


if __name__ == "__main__":
    main()
