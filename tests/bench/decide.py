"""`make bench-decide`: a night of four checkpoints that is decided early, beside the same night
that asks everything.

The checkpoints are 0, 2, 5 and 10 points better than a recorded baseline. All ask one endpoint that
answers after a known time and takes so many requests at once. The ideal is ceil(calls / in flight)
x latency; the share is the ideal over the time from the first request to the last answer. `needed`
is the number of problems after which the confidence sequence decides, problem by problem: what a
run played beyond it, it wasted. Where an endpoint is kept busy, that is what was in flight at the
decision, and what began while the last batch was completed and scored: the aim is a quarter more
than what is in flight.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.planning.dataset import problem_order
from tests.bench.processes import Server, Watched, environment, latency_server, watch
from tests.bench.sequence import ALPHA, MARGIN, wins_and_losses
from warehouse.comparison.sequential import decide, intervals
from warehouse.connect import connect

LIMIT_S = 500.0
QUIZ = '''
from tasks.benchmarks.one_file import Item, benchmark
from tasks.metrics.registry import metric

@metric("answered_rightly", better="higher")
def answered_rightly(answer, reference):
    """1 where the answer is the reference."""
    return float(answer.strip() == reference)

@benchmark("quiz", metric=answered_rightly)
def TASKS(row):
    return Item(row["id"], [row["question"]], reference="yes")
'''


@dataclass(frozen=True)
class Checkpoint:
    """A model that differs from the baseline by a known share of the problems."""

    name: str
    difference: float
    discordant: float


CHECKPOINTS = (
    Checkpoint("equal", 0.00, 0.10),
    Checkpoint("plus-2", 0.02, 0.12),
    Checkpoint("plus-5", 0.05, 0.15),
    Checkpoint("plus-10", 0.10, 0.20),
)
Outcomes = Mapping[str, np.ndarray]
"""Model -> 1 for each problem that it answers rightly, else 0."""


@dataclass(frozen=True)
class Load:
    """A night's size."""

    n_tasks: int
    in_flight: int
    latency_s: float
    workers: int

    def ideal_s(self, n_calls: int) -> float:
        """Least seconds in which the endpoint can answer so many calls."""
        return math.ceil(n_calls / self.in_flight) * self.latency_s


def drawn_outcomes(n_tasks: int, seed: int = 0) -> Outcomes:
    """Draw a baseline that is right on half of the problems, and what each checkpoint wins and
    loses against it.
    """
    rng = np.random.default_rng(seed)
    baseline = rng.permutation(np.arange(n_tasks) % 2)
    found = {"baseline": baseline}
    for one in CHECKPOINTS:
        differences = wins_and_losses(n_tasks, one.difference, one.discordant)
        wins = rng.choice(
            np.flatnonzero(baseline == 0), size=int((differences > 0).sum()), replace=False
        )
        losses = rng.choice(
            np.flatnonzero(baseline == 1), size=int((differences < 0).sum()), replace=False
        )
        found[one.name] = baseline.copy()
        found[one.name][wins], found[one.name][losses] = 1, 0
    return found


def problem_ids(n_tasks: int) -> list[str]:
    """Ids of the problems, in the order of the file."""
    return [f"q{number:05}" for number in range(n_tasks)]


def question(problem_id: str) -> str:
    """What the user asks."""
    return f"Question {problem_id}?"


def needed(outcomes: Outcomes, name: str) -> int:
    """Count the problems of the fixed order after which the confidence sequence decides."""
    n = outcomes[name].size
    places = {problem: place for place, problem in enumerate(problem_ids(n))}
    order = [places[problem] for problem in problem_order(places, "quiz", 0)]
    baseline = outcomes["baseline"][order]
    ends = intervals(outcomes[name][order] - baseline, n, ALPHA, baseline.astype(int))
    return next(
        (
            at
            for at, (low, high) in enumerate(ends, 1)
            if decide((low, high), MARGIN, is_all_asked=False)
        ),
        n,
    )


def write_quiz(folder: Path, outcomes: Outcomes) -> Path:
    """Write the benchmark, the baseline's recording and the endpoint's answers; returns the
    benchmark's file.
    """
    ids = problem_ids(outcomes["baseline"].size)
    texts = {
        name: ["yes" if right else "no" for right in of_one] for name, of_one in outcomes.items()
    }
    recording = [
        {"problem_id": one, "turn": 1, "sample": 0, "content": text}
        for one, text in zip(ids, texts["baseline"], strict=True)
    ]
    _write_lines(folder / "quiz.jsonl", [{"id": one, "question": question(one)} for one in ids])
    _write_lines(folder / "baseline.jsonl", recording)
    replies = {
        name: dict(zip(map(question, ids), of_one, strict=True)) for name, of_one in texts.items()
    }
    (folder / "replies.json").write_text(json.dumps(replies))
    path = folder / "quiz.py"
    path.write_text(QUIZ)
    return path


def _write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(
    load: Load, folder: Path, home: Path, models: Sequence[str], rule: Mapping[str, Any] | None
) -> Watched:
    """Run a night of these models in a process of its own."""
    asked = [
        {
            "model": {
                "spec": spec,
                **({"revision": "bench"} if spec.startswith("openai:") else {}),
            },
            "benchmark": {"name": str(folder / "quiz.py"), "dataset_version": "current"},
            "concurrency": load.in_flight,
            "workers": load.workers,
            "decide": rule,
        }
        for spec in models
    ]
    requests = folder / "requests.json"
    requests.write_text(json.dumps(asked))
    command = [
        sys.executable,
        "-m",
        "tests.bench.pooled_night",
        str(requests),
        "--runs-at-once",
        "16",
    ]
    return watch(command, environment({"PARLEY_HOME": str(home)}), LIMIT_S)


def compare(load: Load) -> Iterator[str]:
    """Yield lines: both nights, then each checkpoint of the decided one."""
    outcomes = drawn_outcomes(load.n_tasks)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_quiz(folder, outcomes)
        with latency_server(
            load.latency_s, 0.0, 3 * LIMIT_S, replies=folder / "replies.json"
        ) as server:
            models = [f"openai:{one.name}@{server.base_url}" for one in CHECKPOINTS]
            yield (
                f"{len(models)} checkpoints of one endpoint x {load.n_tasks} tasks, "
                f"{load.latency_s:g} s,"
                f" {load.in_flight} in flight, {load.workers} workers"
            )
            yield (
                f"{'night':10} {'calls':>6} {'share':>6} {'window s':>9} {'ideal s':>8} "
                f"{'wall s':>7} {'CPU ms/call':>12}"
                f" {'in flight':>10}"
            )
            yield _night_line("whole", load, folder, Path(folder / "whole"), server, models, None)
            home = folder / "decided"
            run(load, folder, home, [f"recorded:{folder / 'baseline.jsonl'}"], None)
            rule = {"baseline": "recorded:baseline", "margin": MARGIN, "alpha": ALPHA}
            yield _night_line("decided", load, folder, home, server, models, rule)
        yield (
            f"\n{'checkpoint':10} {'true':>6} {'decision':>11} {'needed':>7} {'counted':>8} "
            f"{'played':>7} {'wasted':>7}"
        )
        yield from _checkpoint_lines(home, outcomes, load)


def _night_line(
    name: str,
    load: Load,
    folder: Path,
    home: Path,
    server: Server,
    models: Sequence[str],
    rule: Mapping[str, Any] | None,
) -> str:
    server.reset()
    ran = run(load, folder, home, models, rule)
    if unfinished := [
        one for one in json.loads(ran.out.splitlines()[-1])["statuses"] if one[0] != "finished"
    ]:
        raise RuntimeError(f"{name}: a run is {unfinished[0][0]}: {unfinished[0][1]}")
    stats = server.stats()
    n_calls, window_s = stats["requests"], stats["window_s"]
    ideal_s, cpu_ms = load.ideal_s(n_calls), 1000 * ran.cpu_s / n_calls
    figures = (
        f"{ideal_s / window_s:6.2f} {window_s:9.1f} {ideal_s:8.1f} {ran.wall_s:7.1f} {cpu_ms:12.2f}"
    )
    return f"{name:10} {n_calls:6} {figures} {stats['max_in_flight']:10}"


def _checkpoint_lines(home: Path, outcomes: Outcomes, load: Load) -> Iterator[str]:
    sql = (
        "select model, decision, n_asked, (select count(*) from run_episodes as e where "
        "e.run_id = d.run_id) as n_played"
        " from decisions as d order by all"
    )
    with connect(home) as connection:
        rows = {
            model.removeprefix("openai:"): row for model, *row in connection.execute(sql).fetchall()
        }
    most = 0
    for one in CHECKPOINTS:
        decision, n_asked, n_played = rows[one.name]
        n_needed = needed(outcomes, one.name)
        most = max(most, n_played - n_needed)
        yield (
            f"{one.name:10} {100 * one.difference:+6.0f} {decision:>11} {n_needed:7} "
            f"{n_asked:8} {n_played:7}"
            f" {n_played - n_needed:7}"
        )
    aim = load.in_flight * 5 // 4
    yield (
        f"wasted at most {most} problems; aim: {aim}, those in flight and a quarter more: "
        f"{'' if most <= aim else 'NOT '}reached"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=1140)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    for line in compare(Load(asked.tasks, asked.in_flight, asked.latency_s, asked.workers)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
