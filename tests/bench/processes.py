"""Running the contestants: a server that is asked, and a client whose whole process tree is
watched.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Watched:
    """A client that ran to its end.

    Processor seconds and the highest memory are of all its processes together.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    out: str


class Server:
    """A latency server under way."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._root = base_url.removesuffix("/v1")

    def reset(self) -> None:
        urllib.request.urlopen(f"{self._root}/reset", data=b"", timeout=10).read()

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._root}/stats", timeout=10) as answer:
            return json.load(answer)


@contextmanager
def latency_server(
    latency_s: float,
    sigma: float,
    max_seconds: float,
    *,
    answer: Path | None = None,
    name: str = "mock",
    replies: Path | None = None,
) -> Iterator[Server]:
    """A server of its own process for the time of the block; the files `answer` and `replies` hold
    what it says.
    """
    command = [
        sys.executable,
        "-m",
        "tests.bench.latency_server",
        "--latency-s",
        str(latency_s),
        "--sigma",
        str(sigma),
    ]
    command += ["--name", name, *([] if answer is None else ["--answer", str(answer)])]
    command += [] if replies is None else ["--replies", str(replies)]
    process = subprocess.Popen(
        [*command, "--max-seconds", str(max_seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        yield Server(json.loads(process.stdout.readline())["base_url"])
    finally:
        process.kill()
        process.communicate()


def environment(extra: Mapping[str, str] | None = None, *first: Path) -> dict[str, str]:
    """Ours, with the checkout (and folders that go before it) importable."""
    path = os.pathsep.join(map(str, (*first, ROOT)))
    return {**os.environ, "PYTHONPATH": path, **(extra or {})}


def watch(
    command: Sequence[str], environ: Mapping[str, str], limit_s: float, cwd: Path = ROOT
) -> Watched:
    """Run a client to its end.

    Raises:
        RuntimeError: it failed or took longer than `limit_s`; says what it wrote last.
    """
    used: dict[int, float] = {}
    peak, started = 0.0, time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            list(command), env=dict(environ), stdout=out, stderr=err, cwd=cwd
        )
        tree = psutil.Process(process.pid)
        while process.poll() is None:
            if time.monotonic() - started > limit_s:
                _end(tree)
            peak = max(peak, _look(tree, used))
            time.sleep(0.1)
        wall_s = time.monotonic() - started
        for file in (out, err):
            file.seek(0)
        said, complaint = out.read(), err.read()
    if process.returncode:
        raise RuntimeError(
            f"{' '.join(command)[:120]} ended with {process.returncode} after {wall_s:.0f} "
            f"s: {complaint[-800:]}"
        )
    return Watched(wall_s, sum(used.values()), peak, said)


def _look(tree: psutil.Process, used: dict[int, float]) -> float:
    """Note the processor time of each process; returns megabytes in all."""
    memory = 0.0
    try:
        processes = [tree, *tree.children(recursive=True)]
    except psutil.Error:
        return memory
    for process in processes:
        try:
            times, memory = process.cpu_times(), memory + process.memory_info().rss / 2**20
        except psutil.Error:  # it has ended: what was last seen of it counts
            continue
        used[process.pid] = times.user + times.system
    return memory


def _end(tree: psutil.Process) -> None:
    for process in (*tree.children(recursive=True), tree):
        try:
            process.kill()
        except psutil.Error:  # it has ended by itself
            continue
