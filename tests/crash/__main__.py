"""`python -m tests.crash --rounds 100 --seed 1`: kills at random moments, each compared with a
night that nothing interrupted.

A round is a new home: the night is begun, one process of it is killed at a random moment (half of
the rounds do that twice), the same command is typed until it is done, and tables, calls, processes,
locks and files are looked at. Ctrl-C prints what there is.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import psutil

from flows.orchestration.server_record import read_record
from tests.crash.comparison import Tables, differences, leftovers, tables
from tests.crash.conftest import with_earlier_nights
from tests.crash.night import (
    INVOCATION_LIMIT_S,
    TURNS,
    Counter,
    Ended,
    Night,
    Victim,
    adopting_orphans,
    counting_server,
    kill_now,
)

BWRAP_WAIT_S = 30.0
"""How long to look for a sandboxed program after the last answer; each lives for a moment only."""
MOST_TRIES = 6
"""Commands until a night must be done: random kills may end each of the first ones."""
VICTIMS: tuple[Victim, ...] = get_args(Victim)


@dataclass(frozen=True)
class Pace:
    """How long an uninterrupted night takes to its first answer, and from its last one to its
    end.
    """

    head_s: float
    tail_s: float


@dataclass(frozen=True)
class Moment:
    """Seconds after the start, or after an answer (1 to TURNS) of the model server."""

    answers: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.seconds:.2f} s after "
            f"{f'answer {self.answers}' if self.answers else 'the start'}"
        )


def random_moment(chance: random.Random, pace: Pace) -> Moment:
    """A fifth before the first answer, two fifths among the answers, two fifths after the last
    one.
    """
    part = chance.random()
    if part < 0.2:
        return Moment(0, chance.uniform(0.1, 1.0) * pace.head_s)
    if part < 0.6:
        return Moment(chance.randint(1, TURNS), chance.uniform(0.0, 0.1))
    return Moment(TURNS, chance.uniform(0.0, 0.9) * pace.tail_s)


@dataclass
class Round:
    """What one round showed."""

    number: int
    victims: list[str] = field(default_factory=list[str])
    moments: list[Moment] = field(default_factory=list[Moment])
    mismatches: list[str] = field(default_factory=list[str])
    extra_calls: int = 0
    leftovers: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return bool(self.mismatches or self.leftovers)

    def __str__(self) -> str:
        kills = ", ".join(
            f"{victim} {moment}" for victim, moment in zip(self.victims, self.moments, strict=True)
        )
        faults = "; ".join((*self.mismatches, *self.leftovers))
        said = f"FAILED: {faults}" if faults else "equal"
        what = f"{kills or 'too late, nothing killed'}; {self.extra_calls} calls repeated"
        return f"round {self.number}: {what}; {self.seconds:.0f} s; {said}"


def play(number: int, seed: int, counter: Counter, uninterrupted: Tables, pace: Pace) -> Round:
    """One round."""
    chance = random.Random(f"{seed}/{number}")
    done, begun = Round(number), time.monotonic()
    with _folder() as folder:
        counter.server.reset()
        night = Night(folder, counter)
        with_earlier_nights(night.home)
        try:
            for _ in range(chance.choice((1, 2))):
                victim = chance.choices(VICTIMS, weights=(4, 3, 2, 2))[0]
                moment = Moment(TURNS, 0.0) if victim == "bwrap" else random_moment(chance, pace)
                _interrupt(night, victim, moment, chance, done)
            last = _finish(night)
            done.mismatches += differences(tables(night.home), uninterrupted)
            if last.line()["episodes"] != 60:
                done.mismatches.append(f"episodes: {last.line()['episodes']}")
        except (AssertionError, subprocess.TimeoutExpired) as fault:
            done.mismatches.append(str(fault).strip()[-1500:])
        done.extra_calls = counter.calls() - TURNS
        if counter.calls() > night.allowed:
            done.mismatches.append(
                f"{counter.calls()} calls; {TURNS} turns and what was in flight are {night.allowed}"
            )
        done.leftovers = leftovers(night.home, night.temporary, night.pids())
    done.seconds = time.monotonic() - begun
    return done


def _interrupt(
    night: Night, victim: Victim, moment: Moment, chance: random.Random, done: Round
) -> None:
    """Begin the night and kill one of its processes at a moment; one that has no such process then
    loses another.
    """
    with night.started() as process:
        if not _reached(moment, night, process):
            return
        deadline = time.monotonic() + BWRAP_WAIT_S
        prey, found = _prey(night, process, victim, chance)
        while (
            victim == "bwrap"
            and found != victim
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            prey, found = _prey(night, process, victim, chance)
        victim = found
        try:
            killed = kill_now(prey, victim)
        except psutil.NoSuchProcess:
            return
        done.victims.append(victim)
        done.moments.append(moment)
        if victim == "driver":
            process.wait()
        else:
            process.wait(INVOCATION_LIMIT_S)
        left = [p for p in night.wait_until_alone(20) if p.name() != "bwrap"]  # as in Night.ended
        night.count(killed, time.monotonic() if victim == "driver" else killed.at + 0.05)
        assert not left, f"left behind: {[p.cmdline() for p in left]}"


def _reached(moment: Moment, night: Night, process: "subprocess.Popen[str]") -> bool:
    """Wait for a moment; False where the command ended before."""
    since: float | None = None
    while since is None or time.monotonic() < since + moment.seconds:
        if process.poll() is not None:
            return False
        if since is None and night.counter.server.answered >= moment.answers:
            since = time.monotonic()
        time.sleep(0.005)
    return True


def _prey(
    night: Night, process: "subprocess.Popen[str]", victim: Victim, chance: random.Random
) -> tuple[psutil.Process, Victim]:
    family = night.family()
    if victim == "server":
        record = read_record(night.home / "prefect")
        found = [p for p in family if record and p.pid == record.pid]
    else:
        marks = {"worker": "spawn_main", "bwrap": "bwrap", "driver": "flows.cli"}
        found = [p for p in family if any(marks[victim] in part for part in _command_line(p))]
    return (
        (chance.choice(found), victim)
        if found and victim != "driver"
        else (psutil.Process(process.pid), "driver")
    )


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _finish(night: Night) -> Ended:
    """Type the command until the run is finished; exit code 3 says that something is still pending."""
    done = night.run()
    for _ in range(MOST_TRIES):
        if done.code != 3:
            break
        done = night.run()
    return done


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="parley-crash-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _uninterrupted(counter: Counter) -> tuple[Tables, Pace]:
    with _folder() as folder:
        night = Night(folder, counter)
        with_earlier_nights(night.home)
        begun = time.monotonic()
        done = night.run()
        assert done.line()["episodes"] == 60
        first, last = counter.changes[1][0], counter.changes[-1][0]
        return tables(night.home), Pace(first - begun, begun + done.seconds - last)


def summary(rounds: Sequence[Round]) -> str:
    """The closing table, a row for each victim."""
    lines = [
        f"{'victim':10}{'kills':>7}{'mismatches':>12}{'extra calls':>13}{'leftovers':>11}{'seconds':>9}"
    ]
    for victim in (*VICTIMS, "all"):
        of = [r for r in rounds if victim in (*r.victims, "all")]
        kills = sum(victim in (name, "all") for r in rounds for name in r.victims)
        counts = (
            kills,
            sum(bool(r.mismatches) for r in of),
            sum(r.extra_calls for r in of),
            sum(bool(r.leftovers) for r in of),
        )
        lines.append(
            f"{victim:10}{counts[0]:7}{counts[1]:12}{counts[2]:13}{counts[3]:11}{sum(r.seconds for r in of):9.0f}"
        )
    return (
        "\n".join(lines)
        + "\n(mismatches, calls, leftovers and seconds of a round count for each of its victims)"
    )


def main() -> int:
    """Exit status 1 where a round failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this round alone, as it was")
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=5400.0,
        help="no further round is begun after this long",
    )
    asked = parser.parse_args()
    rounds: list[Round] = []
    begun = time.monotonic()
    with adopting_orphans(), counting_server(max_seconds=asked.max_seconds + 900) as counter:
        uninterrupted, pace = _uninterrupted(counter)
        print(
            (
                f"an uninterrupted night: {pace.head_s:.0f} s before the first answer, "
                f"{pace.tail_s:.0f} s after the last"
            ),
            flush=True,
        )
        try:
            for number in range(asked.rounds) if asked.only is None else [asked.only]:
                if time.monotonic() - begun > asked.max_seconds:
                    print(f"stopped after {asked.max_seconds:.0f} s", flush=True)
                    break
                rounds.append(play(number, asked.seed, counter, uninterrupted, pace))
                print(rounds[-1], flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    print(summary(rounds))
    for failed in (r for r in rounds if r.failed):
        print(f"repeat: python -m tests.crash --seed {asked.seed} --only {failed.number}")
    return int(any(r.failed for r in rounds))


if __name__ == "__main__":
    sys.exit(main())
