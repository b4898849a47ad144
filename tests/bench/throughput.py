"""`make bench`: a night's share of the ideal, beside a plain asyncio loop and the peers' clients,
in one run.

Ideal = summed latency / requests in flight; for equal latencies ceil(dialogues / in flight) x turns
x latency. The share is the ideal over the time from first request to last answer, as the server saw
it. Processor time is that of all processes together. Programs of finished dialogues run at low
priority beside others; a night that leaves them all to the next stage tells what either stage
takes.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.latency_server import ANSWER
from tests.bench.processes import ROOT, Server, Watched, environment, latency_server, watch
from tests.bench.synthetic import ASK, write_mixed, write_plugin, write_tasks

PEERS = ROOT.parent / "shared" / "peers"
LIMIT_S = 500.0
TURNS = 6


@dataclass(frozen=True)
class Load:
    """So many dialogues of six turns, or of 2 to 12 where the latency varies (sigma of a
    log-normal).
    """

    name: str
    n_dialogs: int
    latency_s: float
    sigma: float = 0.0
    aim: float | None = None

    def ideal_s(self, stats: dict[str, Any], in_flight: int) -> float:
        if self.sigma:
            return stats["promised_s"] / in_flight
        return math.ceil(self.n_dialogs / in_flight) * TURNS * self.latency_s


LOADS = (
    Load("fifth", 2000, 0.2, aim=0.85),
    Load("second", 1024, 1.0, aim=0.95),
    Load("mixed", 4096, 1.0, sigma=0.5, aim=0.95),
)
NIGHT = Load("night", 2664, 1.0)
TESTED = Load("tested", 300, 0.2)
ANSWERS = {
    "pass": ANSWER,
    "fail": ANSWER.replace("sum(items)", "None"),
    "raise": ANSWER.replace("def solve", "no_such_name\ndef solve"),
    "do not compile": ANSWER.replace("def solve", "def def solve"),
}
"""What becomes of every answer's tests."""
CURVE = Load("curve", 500, 0.2)
CURVES = ((1, 256), (2, 256), (3, 256), (2, 32), (2, 64), (2, 128), (2, 512))
"""(worker processes, requests in flight)."""


class Bench:
    """One folder of data and homes for all contestants of a load."""

    def __init__(self, folder: Path, load: Load) -> None:
        self.folder, self.load = folder, load
        self.plugin = write_plugin(folder / "plugin")
        if load.sigma:
            self.benchmark, self.data = "bench.static", folder / "turns.json"
            self.n_turns = write_mixed(self.data, load.n_dialogs)
            turns: Sequence[int] = json.loads(self.data.read_text())
        else:
            self.benchmark, self.data = (
                "codeif.static",
                write_tasks(folder / "tasks", load.n_dialogs, TURNS),
            )
            turns, self.n_turns = [TURNS] * load.n_dialogs, load.n_dialogs * TURNS
        self.dialogues = folder / "dialogues.jsonl"
        with self.dialogues.open("w") as file:
            for task, count in enumerate(turns, 1):
                file.write(
                    json.dumps([ASK.format(task=task, turn=turn) for turn in range(1, count + 1)])
                    + "\n"
                )

    def night(
        self,
        server: Server,
        workers: int,
        in_flight: int,
        *,
        apart: bool = False,
        sandbox: str = "instant",
    ) -> Watched:
        """The product, whole path, in a home of its own; `apart`: no programs beside dialogues."""
        home = Path(tempfile.mkdtemp(dir=self.folder))
        command = [
            sys.executable,
            "-m",
            "tests.bench.one_night",
            "--benchmark",
            self.benchmark,
            "--data",
            str(self.data),
        ]
        command += [
            "--base-url",
            server.base_url,
            "--in-flight",
            str(in_flight),
            "--workers",
            str(workers),
        ]
        command += ["--sandbox", sandbox, *(["--apart"] if apart else [])]
        environ = environment({"PARLEY_HOME": str(home)}, self.plugin)
        return watch([*command, "--began", str(time.monotonic())], environ, LIMIT_S)

    def plain(self, server: Server, in_flight: int) -> Watched:
        """Our own plain loop."""
        command = [sys.executable, "-m", "tests.bench.plain_loop", "--base-url", server.base_url]
        command += [
            "--dialogues",
            str(self.dialogues),
            "--in-flight",
            str(in_flight),
            "--out",
            str(self.folder / "plain.jsonl"),
        ]
        return watch(command, environment(), LIMIT_S)

    def peer(self, server: Server, client: str, in_flight: int) -> Watched:
        """A client of the peers' folder."""
        out = tempfile.mkdtemp(dir=self.folder)
        command = [
            sys.executable,
            "plain_client.py",
            "--client",
            client,
            "-n",
            str(self.load.n_dialogs),
            "-c",
            str(in_flight),
        ]
        environ = environment({"MOCK_BASE_URL": server.base_url, "PYTHONDONTWRITEBYTECODE": "1"})
        return watch([*command, "--out", out], environ, LIMIT_S, cwd=PEERS)


def compare(load: Load, in_flight: int, workers: int, peers: bool) -> None:
    """One load, every contestant in turn; prints a table, and the night's stages."""
    with (
        tempfile.TemporaryDirectory() as folder,
        latency_server(load.latency_s, load.sigma, 4 * LIMIT_S) as server,
    ):
        bench = Bench(Path(folder), load)
        kind = (
            f"log-normal latency around {load.latency_s:g} s"
            if load.sigma
            else f"{load.latency_s:g} s latency"
        )
        print(
            (
                f"\n{load.name}: {load.n_dialogs} dialogues, {bench.n_turns} turns, {kind}, "
                f"{in_flight} in flight"
            ),
            flush=True,
        )
        print(
            f"{'':32} {'share':>6} {'window s':>9} {'ideal s':>8} {'wall s':>7} "
            f"{'CPU ms/turn':>12} {'peak MB':>8}"
        )
        night = bench.night(server, workers, in_flight)
        share = _line(f"parley, {workers} workers", bench, server, night, in_flight)
        _line("plain loop (aiohttp)", bench, server, bench.plain(server, in_flight), in_flight)
        for client in ("post", "openai") if peers and not load.sigma and PEERS.is_dir() else ():
            _line(
                f"peer: plain, openai SDK, {client}",
                bench,
                server,
                bench.peer(server, client, in_flight),
                in_flight,
            )
        if load.aim is not None:
            print(f"  aim {load.aim:.2f}: {'reached' if share >= load.aim else 'NOT reached'}")
        if not load.sigma:
            night = bench.night(server, workers, in_flight, apart=True)
            _line("parley, programs afterwards", bench, server, night, in_flight)
        _stages(json.loads(night.out.splitlines()[-1]), bench.n_turns)


def _line(who: str, bench: Bench, server: Server, ran: Watched, in_flight: int) -> float:
    stats = server.stats()
    server.reset()
    if (stats["requests"], stats["repeated"]) != (bench.n_turns, 0):
        print(
            f"  {who}: {stats['requests']} requests for {bench.n_turns} turns, "
            f"{stats['repeated']} of them repeated"
        )
    ideal_s = bench.load.ideal_s(stats, in_flight)
    share = ideal_s / stats["window_s"]
    cpu = 1000 * ran.cpu_s / bench.n_turns
    print(
        (
            f"  {who:30} {share:6.2f} {stats['window_s']:9.1f} {ideal_s:8.1f} {ran.wall_s:7.1f} "
            f"{cpu:12.2f} {ran.peak_mb:8.0f}"
        ),
        flush=True,
    )
    return share


def _stages(said: dict[str, Any], n_turns: int) -> None:
    if said["status"] != "finished" or said["owed"]:
        print(f"  the night is {said['status']}: {said['reason']}")
    print(f"  {'stage':34} {'s':>7} {'CPU s':>7}")
    for stage in said["stages"]:
        per_turn = (
            f"  {1000 * stage['cpu_s'] / n_turns:.2f} ms a turn"
            if stage["stage"] == "converse"
            else ""
        )
        print(f"  {stage['stage']:34} {stage['wall_s']:7.1f} {stage['cpu_s']:7.1f}{per_turn}")


def whole_night(in_flight: int, workers: int) -> None:
    """What a night costs outside model and sandbox."""
    load = NIGHT
    with (
        tempfile.TemporaryDirectory() as folder,
        latency_server(load.latency_s, 0.0, 2 * LIMIT_S) as server,
    ):
        bench = Bench(Path(folder), load)
        print(
            (
                f"\nnight: {load.n_dialogs} dialogues, {bench.n_turns} turns, {load.latency_s:g} "
                f"s, {in_flight} in flight"
            ),
            flush=True,
        )
        ran = bench.night(server, workers, in_flight)
        window_s, said = server.stats()["window_s"], json.loads(ran.out.splitlines()[-1])
        _stages(said, bench.n_turns)
        execute_s = sum(stage["wall_s"] for stage in said["stages"] if stage["stage"] == "execute")
        outside_s = ran.wall_s - window_s - execute_s
        n_programs = load.n_dialogs * TURNS * (TURNS + 1) // 2
        programs_s = n_programs / programs_per_s()
        print(
            f"  model {window_s:.1f} s; the stage around an instant sandbox {execute_s:.1f} "
            f"s; all else {outside_s:.1f} s"
        )
        print(
            f"  all else is {outside_s / (window_s + outside_s):.1%} of a night without "
            "programs, and"
        )
        print(
            f"  {outside_s / (window_s + programs_s + outside_s):.1%} of one whose "
            f"{n_programs} programs take {programs_s:.0f} s"
        )


def tested_night(in_flight: int, workers: int) -> None:
    """300 dialogues of six turns, each answer tested in the default sandbox, whatever comes of it:
    the whole command first.
    """
    load = TESTED
    with tempfile.TemporaryDirectory() as name:
        for what, text in ANSWERS.items():
            folder = Path(name) / what.replace(" ", "-")
            folder.mkdir()
            (answer := folder / "answer.md").write_text(text)
            with latency_server(load.latency_s, 0.0, 2 * LIMIT_S, answer=answer) as server:
                bench = Bench(folder, load)
                ran = bench.night(server, workers, in_flight, sandbox="zygote")
            said = json.loads(ran.out.splitlines()[-1])
            print(
                (
                    f"\ntested: {load.n_dialogs} dialogues, {bench.n_turns} answers that {what}, "
                    f"{in_flight} in flight"
                ),
                flush=True,
            )
            print(
                f"  the whole command {ran.wall_s:.1f} s (aim: under 14 s on a quiet "
                f"machine), {ran.cpu_s:.1f} CPU s"
            )
            n_programs = load.n_dialogs * TURNS * (TURNS + 1) // 2
            print(
                f"  {n_programs} programs in {said['runs']} runs: "
                f"{said['runs'] / max(1, said['answers']):.2f} an answer"
            )
            _stages(said, bench.n_turns)


def programs_per_s(n_programs: int = 60) -> float:
    """Trivial programs a second in the default sandbox, two at a time."""
    from concurrent.futures import ThreadPoolExecutor

    from sandbox import registry
    from sandbox.judging.runners.run import run_function_tests
    from schemas.run import Limits

    sandbox = registry.load("bubblewrap")
    started = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        list(
            threads.map(
                lambda n: run_function_tests(sandbox, f"x = {n}", (f"assert x == {n}",), Limits()),
                range(n_programs),
            )
        )
    return n_programs / (time.monotonic() - started)


def curves() -> None:
    """Share of the ideal over worker processes and in-flight limits."""
    load = CURVE
    print(
        f"\ncurves: {load.n_dialogs} dialogues of {TURNS} turns, {load.latency_s:g} s latency",
        flush=True,
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        latency_server(load.latency_s, 0.0, 2 * LIMIT_S) as server,
    ):
        bench = Bench(Path(folder), load)
        for workers, in_flight in CURVES:
            _line(
                f"{workers} workers, {in_flight} in flight",
                bench,
                server,
                bench.night(server, workers, in_flight),
                in_flight,
            )


def main() -> None:
    parts = (*(load.name for load in LOADS), "night", "tested", "curves")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"any of {', '.join(parts)}; without one, all (about 15 minutes)",
    )
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--no-peers", action="store_true", help="leave out the clients of other tools"
    )
    asked = parser.parse_args()
    unknown = sorted(set(asked.parts) - set(parts))
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; there are {', '.join(parts)}")
    wanted = asked.parts or parts
    for load in LOADS:
        if load.name in wanted:
            compare(load, asked.in_flight, asked.workers, not asked.no_peers)
    if "night" in wanted:
        whole_night(asked.in_flight, asked.workers)
    if "tested" in wanted:
        tested_night(min(64, asked.in_flight), asked.workers)
    if "curves" in wanted:
        curves()


if __name__ == "__main__":
    main()
