"""What the processes of one invocation spend, for all of them to see at once.

A folder that they share. Each process writes files of its own: one sum of everything, and one for each run. The driver writes one
for each model server that it starts. A file is one record of fixed length, replaced in one write.
"""

import os
import struct
import threading
import time
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from secrets import token_hex

_SUM = struct.Struct("<qqqqqd")
_SERVER = struct.Struct("<dddd")
_RUNNING = 0.0
_CLOCK_STEP_NS = 50_000_000
"""Two changes of a folder this near to each other may bear the same time."""


@dataclass(frozen=True)
class Sum:
    """Amounts that add up. `estimated_tokens` are those of answers that the endpoint did not count."""

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
        """All of them."""
        return self.input_tokens + self.output_tokens + self.estimated_tokens


@dataclass(frozen=True)
class Totals:
    """What was spent so far. GPU hours and dollars of servers are counted up to now."""

    answers: Sum
    gpu_hours: float
    server_usd: float

    @property
    def usd(self) -> float:
        """Of answers and of servers."""
        return self.answers.usd + self.server_usd


class Ledger:
    """One folder, as one process sees it. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{os.getpid()}-{token_hex(4)}"
        self._lock = threading.Lock()
        self._own: dict[str, tuple[int, Sum]] = {}
        self._open: dict[str, int] = {}
        """Files that are read, by name."""
        self._listed_ns: int | None = None
        """The folder's time of change when its files were last listed, all of them."""

    def add(self, run_id: str, amount: Sum, *, to_run: bool = True) -> None:
        """Add to this process's sums.

        Args:
            to_run: False leaves it out of what the run's models said.

        Raises:
            OSError: it could not be written.
        """
        with self._lock:
            for name in (f"all.{self._name}", *([f"run-{run_id}.{self._name}"] if to_run else [])):
                descriptor, so_far = self._own.get(name) or (self._create(name), Sum())
                so_far += amount
                os.pwrite(descriptor, _SUM.pack(*astuple(so_far)), 0)
                self._own[name] = descriptor, so_far

    def of_run(self, run_id: str) -> Sum:
        """What the models of a run said, in all processes."""
        sums = (
            _SUM.unpack(path.read_bytes())
            for path in self._folder.glob(f"run-{run_id}.*")
            if path.stat().st_size
        )
        return sum((Sum(*found) for found in sums), Sum())

    def server_started(self, gpus: float, usd_per_hour: float) -> str:
        """A model server starts now; returns its name here."""
        name = f"server-{token_hex(4)}"
        descriptor = self._create(name)
        os.pwrite(descriptor, _SERVER.pack(time.time(), _RUNNING, gpus, usd_per_hour), 0)
        os.close(descriptor)
        return name

    def server_ended(self, name: str) -> None:
        """That server has ended."""
        path = self._folder / name
        started, _, gpus, usd_per_hour = _SERVER.unpack(path.read_bytes())
        path.write_bytes(_SERVER.pack(started, time.time(), gpus, usd_per_hour))

    def totals(self) -> Totals:
        """What all processes have spent so far."""
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
        with suppress(FileNotFoundError):  # nothing was spent yet, or the invocation is over
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
        """Close its files."""
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
    """This process's ledger of a folder. Another folder is another invocation, whose predecessor's files are closed."""
    with _lock:
        if folder not in _ledgers:
            for gone in [name for name in _ledgers if not Path(name).is_dir()]:
                _ledgers.pop(gone).close()
            _ledgers[folder] = Ledger(Path(folder))
        return _ledgers[folder]
