"""Ledger of the amounts that the processes of one invocation spend, in a folder that they share.

Each process writes separate files: one with its total, and one for each run. The driver writes
one for each model server that it starts. A file is a record of fixed length, replaced in one write.
"""

import os
import struct
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from secrets import token_hex

from schemas.night.work import RequestCounts
from tasks.language.chat_model import Send
from tasks.storage.journaling.segments import open_segment, read_segments, remove_segments

_SUM = struct.Struct("<qqqqqd")
_SERVER = struct.Struct("<dddd")
_RUNNING = 0.0
_CLOCK_STEP_NS = 50_000_000
"""Two changes of a folder within this time may have equal timestamps."""


@dataclass(frozen=True)
class Sum:
    """Amounts that can be added.

    `estimated_tokens` belong to answers whose tokens the endpoint did not count.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0
    n_estimated: int = 0
    usd: float = 0.0

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def tokens(self) -> int:
        """Sum of input, output and estimated tokens."""
        return self.input_tokens + self.output_tokens + self.estimated_tokens


@dataclass(frozen=True)
class Totals:
    """Amounts spent so far, including the hours of running model servers until now."""

    answers: Sum
    gpu_hours: float
    server_usd: float

    @property
    def usd(self) -> float:
        """Cost of answers and servers in USD."""
        return self.answers.usd + self.server_usd


class Ledger:
    """Ledger in a folder, as seen by one process. Several threads may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{os.getpid()}-{token_hex(4)}"
        self._lock = threading.Lock()
        self._own: dict[str, tuple[int, Sum]] = {}
        self._open: dict[str, int] = {}
        """Descriptors of the files to read, by name."""
        self._listed_ns: int | None = None
        """Time at which the folder had last changed when its files were last listed."""

    def add(self, run_id: str, amount: Sum, *, to_run: bool = True) -> None:
        """Add an amount to this process's sums.

        Args:
            run_id: run that spent the amount.
            amount: amount to add.
            to_run: False leaves the amount out of the run's own sum.

        Raises:
            OSError: the sum could not be written.
        """
        with self._lock:
            for name in (f"all.{self._name}", *([f"run-{run_id}.{self._name}"] if to_run else [])):
                descriptor, so_far = self._own.get(name) or (self._create(name), Sum())
                so_far += amount
                os.pwrite(descriptor, _SUM.pack(*astuple(so_far)), 0)
                self._own[name] = descriptor, so_far

    def of_run(self, run_id: str) -> Sum:
        """Return the sum of a run over all processes."""
        sums = (
            _SUM.unpack(path.read_bytes())
            for path in self._folder.glob(f"run-{run_id}.*")
            if path.stat().st_size
        )
        return sum((Sum(*amounts) for amounts in sums), Sum())

    def server_started(self, gpus: float, usd_per_hour: float) -> str:
        """Record that a model server starts now, and return its name in the ledger."""
        name = f"server-{token_hex(4)}"
        descriptor = self._create(name)
        os.pwrite(descriptor, _SERVER.pack(time.time(), _RUNNING, gpus, usd_per_hour), 0)
        os.close(descriptor)
        return name

    def server_ended(self, name: str) -> None:
        """Record that a model server has ended."""
        path = self._folder / name
        started, _, gpus, usd_per_hour = _SERVER.unpack(path.read_bytes())
        path.write_bytes(_SERVER.pack(started, time.time(), gpus, usd_per_hour))

    def totals(self) -> Totals:
        """Return the amounts that all processes have spent so far."""
        with self._lock:
            self._look_for_new()
            answers, gpu_hours, server_usd, now = Sum(), 0.0, 0.0, time.time()
            for name, descriptor in self._open.items():
                if name.startswith("all."):
                    data = os.pread(descriptor, _SUM.size, 0)
                    answers += Sum(*_SUM.unpack(data)) if len(data) == _SUM.size else Sum()
                    continue
                data = os.pread(descriptor, _SERVER.size, 0)
                if len(data) == _SERVER.size:
                    started, ended, gpus, usd_per_hour = _SERVER.unpack(data)
                    hours = ((now if ended == _RUNNING else ended) - started) / 3600
                    gpu_hours, server_usd = (
                        gpu_hours + hours * gpus,
                        server_usd + hours * usd_per_hour,
                    )
        return Totals(answers, gpu_hours, server_usd)

    def _look_for_new(self) -> None:
        with suppress(FileNotFoundError):  # nothing was spent yet, or the invocation has ended
            changed_ns = os.stat(self._folder).st_mtime_ns
            if changed_ns == self._listed_ns:
                return
            for name in os.listdir(self._folder):
                if name not in self._open and name.startswith(("all.", "server-")):
                    self._open[name] = os.open(self._folder / name, os.O_RDONLY)
            is_settled = time.time_ns() - changed_ns > _CLOCK_STEP_NS
            self._listed_ns = changed_ns if is_settled else None

    def _create(self, name: str) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o644)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for descriptor in (
                *self._open.values(),
                *(descriptor for descriptor, _ in self._own.values()),
            ):
                os.close(descriptor)
            self._open.clear()
            self._own.clear()


_ledgers: dict[str, Ledger] = {}
_lock = threading.Lock()


def ledger_at(folder: str) -> Ledger:
    """Return this process's ledger of a folder.

    Each invocation has a separate folder. Ledgers of removed folders are closed.
    """
    with _lock:
        if folder not in _ledgers:
            for removed in [name for name in _ledgers if not Path(name).is_dir()]:
                _ledgers.pop(removed).close()
            _ledgers[folder] = Ledger(Path(folder))
        return _ledgers[folder]


class SendLog:
    """Log of the requests that one process sends to models. Several threads may use it.

    Its segment is created at the first request.
    """

    def __init__(self, folder: Path) -> None:
        self._segment = open_segment(folder, "a count of requests")

    def count(self, send: Send, *, is_embedder: bool = False) -> None:
        """Record one request that was sent to a model.

        Args:
            send: The request and how it ended.
            is_embedder: True if it went to the run's embedder.

        Raises:
            DiskFull: the disk is full.
            OSError: the process may not write.
            ServerUnavailable: the object store does not accept segments.
        """
        self._segment.write(
            {"is_repeated": send.is_repeated, "is_paid": send.is_paid, "is_embedder": is_embedder}
        )

    def count_embedder(self, send: Send) -> None:
        """Record one request that was sent to the run's embedder. Raises the errors of `count`."""
        self.count(send, is_embedder=True)

    def close(self) -> None:
        """Close the segment. A later request opens another one."""
        self._segment.close()


def remove_sends(folder: Path) -> None:
    """Remove the request logs in a folder, once the run's record contains their counts.

    If another process still writes to the folder, errors are ignored.
    """
    with suppress(OSError):
        remove_segments(folder)


def read_sends(folder: Path) -> RequestCounts:
    """Return the counts of all logged requests below a folder."""
    n = Counter[str]()
    for row in read_segments(folder):
        n["repeated" if row.get("is_repeated") else "asked"] += 1
        n["paid" if row.get("is_paid") else "refused"] += 1
        n["embedder"] += bool(row.get("is_paid") and row.get("is_embedder"))
    return RequestCounts(**n)
