"""Prints the share of eight devices' time in which a server of a night loads or plays: `python -m
tests.bench.gpus`.

Sixteen checkpoints, some over four devices, in a random order. Their servers are real processes of
`tests/fixtures/vllm_program.py`, started, awaited and ended as vLLM is. A run that has played goes
on with its programs, which hold no device.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.night.session import Session
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.planning.plan import RunPlan, plan_run
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tests.fixtures import vllm_program

DEVICES = tuple("01234567")
LOAD_S = {1: (40, 60), 4: (90, 130)}
"""Seconds that a server needs to load its weights, by the number of its devices."""
PLAY_S, PROGRAMS_S = (60, 120), 60


@dataclass
class Checkpoint:
    """One run, and what happened to it."""

    plan: RunPlan
    width: int
    play_s: float
    devices_since_s: float = 0.0
    up_s: float = 0.0
    played_s: float = 0.0

    def go(self, night: Session, scale: float) -> None:
        """Load, play, and go on without a server."""

        @contextmanager
        def waiting() -> Iterator[None]:
            yield
            self.devices_since_s = time.monotonic()

        with night.using_servers(self.plan):
            self.devices_since_s = time.monotonic()
            night.servers.reach(self.plan, waiting=waiting)
            self.up_s = time.monotonic()
            time.sleep(self.play_s)
            self.played_s = time.monotonic()
            night.servers.keep(self.plan)
            time.sleep(PROGRAMS_S * scale)


def checkpoints(home: Home, program: str, n_wide: int, seed: int, scale: float) -> list[Checkpoint]:
    """Plan sixteen runs in a random order."""
    drawn, found = random.Random(seed), list[Checkpoint]()
    widths = [4] * n_wide + [1] * (16 - n_wide)
    drawn.shuffle(widths)
    for number, width in enumerate(widths):
        environment = {"TAKES_S": str(scale * drawn.uniform(*LOAD_S[width]))}
        serve = VllmSettings(
            devices="auto", tensor_parallel=width, command=program, environment=environment
        )
        model = ModelRequest(spec=f"vllm:bench/step-{number}", revision="1", serve=serve)
        benchmark = BenchmarkRequest(name="codeif.static", dataset_version="sample")
        plan = plan_run(EvaluationRequest(model=model, benchmark=benchmark), home)
        found.append(Checkpoint(plan, width, scale * drawn.uniform(*PLAY_S)))
    return found


def main() -> None:
    """Play a night and print what its devices did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--wide", type=int, default=6, help="checkpoints of 16 that need four devices"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=0.1, help="share of the real times to wait")
    asked = parser.parse_args()
    os.environ["PARLEY_DEVICES"] = ",".join(DEVICES)
    with tempfile.TemporaryDirectory() as folder, Session(Home(Path(folder))) as night:
        runs = checkpoints(
            night.home, vllm_program.install(Path(folder)), asked.wide, asked.seed, asked.scale
        )
        night.servers.expect(run.plan for run in runs)
        threads = [threading.Thread(target=run.go, args=(night, asked.scale)) for run in runs]
        began_s = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        night.servers.end()
    last_s = max(run.played_s for run in runs) - began_s
    loading = sum(run.width * (run.up_s - run.devices_since_s) for run in runs) / (
        len(DEVICES) * last_s
    )
    playing = sum(run.width * (run.played_s - run.up_s) for run in runs) / (len(DEVICES) * last_s)
    print(
        f"16 checkpoints, {asked.wide} of them over four devices: {last_s:.1f} s until the "
        "last dialogue ended"
    )
    print(
        f"share of {len(DEVICES)} devices' time: {loading + playing:.3f} (loading "
        f"{loading:.3f}, playing {playing:.3f})"
    )


if __name__ == "__main__":
    main()
