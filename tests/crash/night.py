"""One night that is killed and gone on with: its home, its counting model server, its invocations,
and who of them is left.

Nothing in the product knows of kills: `injected/sitecustomize.py` is on the PYTHONPATH of the
processes that are to be killed.
"""

import ctypes
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from tests.crash.six_turns import N_DIALOGS, N_TURNS
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.parley_command import ROOT, command

CONCURRENCY = 16
"""Model requests in flight at most: what a kill may cost."""
TURNS = N_DIALOGS * N_TURNS
LATENCY_S = 0.05
UNREAD_S = 1.0
"""So long after it was sent, a worker on a busy machine may not have read an answer."""
END_LIMIT_S = 60.0
INVOCATION_LIMIT_S = 300.0
PR_SET_CHILD_SUBREAPER = 36
INJECTED = Path(__file__).with_name("injected")

Victim = Literal["driver", "worker", "bwrap", "server", "group", "timeout"]
"""`group`: the driver and all that a signal to its process group reaches.

`timeout`: the driver, then its group, as that does.
"""


@dataclass(frozen=True)
class Kill:
    """A kill at the `nth` time that a process reaches a point, counted from when the kill before it
    has happened.
    """

    point: str
    victim: Victim
    nth: int = 1
    signals: tuple[int, ...] = (signal.SIGKILL,)


@dataclass(frozen=True)
class Happened:
    """A kill as its mark tells it; `at` is on the monotonic clock, which all processes of a machine
    share.
    """

    kill: Kill
    pid: int
    at: float


@dataclass(frozen=True)
class Ended:
    """An invocation that ended; `code` is negative where a signal ended it."""

    code: int
    out: str
    err: str
    seconds: float

    def line(self) -> dict[str, Any]:
        """The line of JSON that a finished run prints."""
        assert self.code == 0, f"exit code {self.code}: {self.err}\n{self.out}"
        return json.loads(self.out)


@dataclass
class Counter:
    """What a model server has under way, over time: one entry each time that the number changes."""

    server: ModelServer
    open: int = 0
    changes: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def __post_init__(self) -> None:
        chat = self.server._chat

        async def counted(*arguments: Any) -> bool:
            self._change(1)
            try:
                return await chat(*arguments)
            finally:
                self._change(-1)

        # for this one server; the class stays as it is
        setattr(self.server, "_chat", counted)  # noqa: B010

    def _change(self, by: int) -> None:
        self.open += by
        self.changes.append((time.monotonic(), self.open))

    def under_way(self, start: float, end: float) -> int:
        """How many requests were open in a time span (monotonic seconds), each counted once."""
        before = [n for at, n in self.changes if at <= start][-1]
        return before + sum(
            n > earlier
            for (_, earlier), (at, n) in itertools.pairwise(self.changes)
            if start < at <= end
        )

    def calls(self) -> int:
        return sum(self.server.prompts.values())


@contextmanager
def counting_server(*, max_seconds: float, latency_s: float = LATENCY_S) -> Iterator[Counter]:
    """A model server in a thread of this process, outside of all that is killed."""
    with model_server(latency_s=latency_s, max_seconds=max_seconds) as server:
        yield Counter(server)


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """For this time whatever outlives its parent becomes a child of this process, so that none goes
    unseen (Linux).
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Night:
    """A home below `folder`, and the command that is typed on it again and again.

    Args:
        folder: an empty folder.
        counter: its model server.
        environ: further variables, for example PREFECT_API_URL of a standing server.
    """

    def __init__(
        self, folder: Path, counter: Counter, environ: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.counter, self.home = folder, counter, folder / "home"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.n_invocations = 0
        self.happened: list[Happened] = []
        self.allowed = TURNS
        """Calls that may have been made: each turn once, and what was in flight at each kill."""
        self.environ = {
            **(environ or {}),
            "PARLEY_HOME": str(self.home),
            "TMPDIR": str(self.temporary),
        }
        """Of the next invocation, besides this process's own."""
        self._strangers = {p.pid for p in psutil.Process().children(recursive=True)}
        write_plugin(folder / "plugin")

    def arguments(self) -> tuple[str, ...]:
        model = f"openai:mock@{self.counter.server.base_url}"
        return (
            "run",
            "crash.six",
            "--model",
            model,
            "--revision",
            "1",
            "--concurrency",
            str(CONCURRENCY),
            "--json",
        )

    def _plan_folder(self) -> Path:
        return self.folder / f"plan-{self.n_invocations}"

    @contextmanager
    def started(
        self, kills: Sequence[Kill] = (), arguments: Sequence[str] = ()
    ) -> Iterator["subprocess.Popen[str]"]:
        """The command as a process, with a plan of kills; ended with the block, whatever was left
        of it.
        """
        self.n_invocations += 1
        plan = self._plan_folder()
        plan.mkdir()
        (plan / "plan.json").write_text(
            json.dumps([asdict(kill) for kill in kills]), encoding="utf-8"
        )
        path = os.pathsep.join(map(str, (INJECTED, self.folder / "plugin", ROOT)))
        with open(self.folder / "out.txt", "w") as out, open(self.folder / "err.txt", "w") as err:
            process = subprocess.Popen(
                command(*(arguments or self.arguments())),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
                env={
                    **os.environ,
                    **self.environ,
                    "PYTHONPATH": path,
                    "PARLEY_CRASH_PLAN": str(plan),
                },
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for left in self.wait_until_alone(END_LIMIT_S):
                if left.name() != "bwrap":
                    left.kill()

    def run(self, kills: Sequence[Kill] = (), arguments: Sequence[str] = ()) -> Ended:
        """Type the command and wait for its end; every planned kill must have happened, and no
        process may be left.
        """
        begun = time.monotonic()
        with self.started(kills, arguments) as process:
            process.wait(INVOCATION_LIMIT_S)
            return self.ended(process, begun, kills)

    def ended(
        self, process: "subprocess.Popen[str]", begun: float, kills: Sequence[Kill] = ()
    ) -> Ended:
        """What an ended invocation said; checks its kills and that no process is left."""
        left = self.wait_until_alone(END_LIMIT_S)
        gone_at = time.monotonic()
        # A bwrap that loses its parent in the first milliseconds is ended by the next command.
        left = [process for process in left if not kills or process.name() != "bwrap"]
        assert not left, f"left behind: {[p.cmdline() for p in left]}"
        done = Ended(
            process.returncode, self._said("out.txt"), self._said("err.txt"), gone_at - begun
        )
        marks = sorted(self._plan_folder().glob("[0-9]*.json"))
        said = [json.loads(mark.read_text(encoding="utf-8")) for mark in marks]
        happened = [
            Happened(
                Kill(s["point"], s["victim"], s["nth"], tuple(s["signals"])), s["pid"], s["at"]
            )
            for s in said
        ]
        assert [h.kill for h in happened] == list(kills), (
            f"kills that happened: {happened}; it said: {done}"
        )
        for one in happened:
            self.count(
                one, gone_at if one.kill.victim in ("driver", "group", "timeout") else one.at + 0.05
            )
        return done

    def count(self, kill: Happened, until: float) -> None:
        """Allow for what was in flight from the kill until the last process that it ended was gone,
        answers not yet read too.
        """
        self.happened.append(kill)
        self.allowed += min(CONCURRENCY, self.counter.under_way(kill.at - UNREAD_S, until))

    def _said(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def pids(self) -> set[int]:
        """Every Python process of all invocations."""
        files = self.folder.glob("plan-*/pids")
        return {int(line) for file in files for line in file.read_text(encoding="ascii").split()}

    def family(self) -> list[psutil.Process]:
        """Living processes of the night, orphans included."""
        return [
            p
            for p in _children()
            if p.pid not in self._strangers and p.status() != psutil.STATUS_ZOMBIE
        ]

    def wait_until_alone(self, limit_s: float) -> list[psutil.Process]:
        """Who of the night's processes still lives after at most `limit_s`; reaps those that were
        orphaned and have ended.
        """
        deadline = time.monotonic() + limit_s
        while True:
            for process in _children():
                with suppress(psutil.NoSuchProcess, ChildProcessError):
                    if (
                        process.pid not in self._strangers
                        and process.status() == psutil.STATUS_ZOMBIE
                    ):
                        os.waitpid(process.pid, os.WNOHANG)
            living = _still(self.family)
            if not living or time.monotonic() > deadline:
                return living
            time.sleep(0.02)


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _still(find: Any) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return find()
    return _still(find)


def write_plugin(
    folder: Path,
    name: str = "crash",
    benchmark: str = "tests.crash.six_turns:BENCHMARK",
    agent: tuple[str, str] | None = None,
) -> None:
    """What an installed package would offer as entry points: a benchmark of the tests' own, and an
    agent (name, place).
    """
    agents = "[parley.agents]\n{} = {}\n".format(*agent) if agent else ""
    info = folder / f"parley_{name}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: parley-{name}\nVersion: 1\n", encoding="ascii"
    )
    (info / "entry_points.txt").write_text(
        f"[parley.benchmarks]\n{name} = {benchmark}\n{agents}", encoding="ascii"
    )


def kill_now(process: psutil.Process, victim: Victim) -> Happened:
    """SIGKILL a process of a night, from here."""
    at = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    return Happened(Kill("now", victim), process.pid, at)
