"""Log of one process's model calls: answers, faults of requests, open requests.

The exported metrics of an invocation come from this log. Each process appends rows to a separate
segment, in a folder that the driver reads, so a killed worker loses no answer. Rows hold counts and
names only: no text, no key, no header.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import DiskFull
from tasks.language.chat_model import ChatModel, ChatRequest, Completion, WrappedModel
from tasks.language.endpoints.wire import observed_by
from tasks.storage.journaling.segments import SegmentWriter

if TYPE_CHECKING:
    from schemas.episode import Step
    from tasks.judging.rubric import Judgement

SUBJECT, SIMULATOR, JUDGE, DRIFT = "subject", "simulator", "judge", "drift"
"""Names of roles: one model plays each role of a run.

A judge's role also names its rubric: `judge clarity`.
"""


@dataclass
class _Queue:
    """Requests of one role in this process."""

    open: int = 0
    """Requests without an answer: waiting or in flight."""
    in_flight: int = 0
    written: tuple[int, int] | None = None
    """Numbers of the last row; None before the first."""


class CallFile:
    """Segment of one process. It is thread-safe. A row that cannot be written is left out."""

    def __init__(self, folder: Path) -> None:
        self._segment = SegmentWriter(folder, "metrics of model calls")
        self._lock = threading.Lock()
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._is_broken = False

    def write(self, run_id: str, role: str, **facts: object) -> None:
        """Append one row about a role of a run."""
        if self._is_broken:
            return
        try:
            self._segment.write({"run": run_id, "seat": role, **facts})
        except (DiskFull, OSError):
            self._is_broken = True

    def close(self) -> None:
        """Close this process's segment."""
        self._segment.close()

    def change(self, run_id: str, role: str, *, open: int = 0, in_flight: int = 0) -> None:
        """Change the numbers of open and in-flight requests of a role. `write_queues` logs them."""
        with self._lock:
            queue = self._queues.setdefault((run_id, role), _Queue())
            queue.open += open
            queue.in_flight += in_flight

    def write_queues(self) -> None:
        """Append a row for each role whose numbers changed since the last call."""
        with self._lock:
            changed = [
                (key, queue)
                for key, queue in self._queues.items()
                if (queue.open, queue.in_flight) != queue.written
            ]
            rows = [(key, queue.open, queue.in_flight) for key, queue in changed]
            for _, queue in changed:
                queue.written = queue.open, queue.in_flight
        for (run_id, role), n_open, n_in_flight in rows:
            self.write(run_id, role, waiting=n_open - n_in_flight, in_flight=n_in_flight)


_files: dict[str, CallFile] = {}
_files_lock = threading.Lock()


def write_queues() -> None:
    """Log this process's open requests in all folders that it writes to."""
    with _files_lock:
        files = tuple(_files.values())
    for file in files:
        file.write_queues()


@dataclass(frozen=True)
class CallLog:
    """Log of one run's model calls. It can be pickled.

    Attributes:
        folder: Folder of the invocation, shared by all its processes.
    """

    folder: str
    run_id: str

    @property
    def file(self) -> CallFile:
        """Return this process's segment."""
        with _files_lock:
            if self.folder not in _files:
                # A file of an earlier invocation.
                for gone in [name for name in _files if not Path(name).is_dir()]:
                    _files.pop(gone).close()
                _files[self.folder] = CallFile(Path(self.folder))
            return _files[self.folder]

    def answered(self, role: str, answer: "Step | Judgement", *, turns: int) -> None:
        """Log an answer that is stored now. Tokens that the endpoint did not count are None."""
        self.file.write(
            self.run_id,
            role,
            turns=turns,
            calls=answer.n_calls,
            input=answer.input_tokens,
            output=answer.output_tokens,
            reasoning=answer.reasoning_tokens,
            latency=answer.latency_s,
        )


@dataclass(frozen=True)
class LoggedModel(WrappedModel):
    """Model whose open requests and faults are logged. See `ChatModel`."""

    log: CallLog
    role: str
    _file: CallFile = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_file", self.log.file)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request. See `ChatModel.complete`."""
        with self._open(), observed_by(self):
            return await self.model.complete(request)

    @contextmanager
    def _open(self) -> Iterator[None]:
        self._file.change(self.log.run_id, self.role, open=1)
        try:
            yield
        finally:
            self._file.change(self.log.run_id, self.role, open=-1)

    def sent(self) -> None:
        """Count a sent request. See `RequestObserver`."""
        self._file.change(self.log.run_id, self.role, in_flight=1)

    def ended(self, fault: str) -> None:
        """Count an ended request. See `RequestObserver`."""
        self._file.change(self.log.run_id, self.role, in_flight=-1)
        if fault:
            self._file.write(self.log.run_id, self.role, fault=fault)


def logged(model: ChatModel, log: CallLog | None, role: str) -> ChatModel:
    """Return the model with logging; the model itself if `log` is None."""
    return model if log is None else LoggedModel(model, log, role)
