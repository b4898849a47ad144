"""Requests of one process to a batch endpoint (`/v1/batches`).

They are collected, sent together, and answered as their batches end. A file with the requests is
written before each batch is created, and then records the batch's id. A killed process pays nothing
twice: the next one finds the batch by its id, or by its name in the endpoint's list.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.content_id import content_id
from tasks.language.endpoints.batch_files import (
    Batch,
    BatchPolicy,
    Lines,
    missing_answer_fault,
    read_line,
    read_object,
)
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.wire import json_bytes
from tasks.storage.new_folder import replace_file

if TYPE_CHECKING:
    from tasks.language.endpoints.batch_model import BatchModel

ENDPOINT = "/v1/chat/completions"
METADATA = "parley_batch"
TERMINAL = ("completed", "failed", "expired", "cancelled")
_LISTED = 100
_REMEMBERED_S = 3600.0
"""Seconds for which an ended batch's file stays.

Its answers may not have reached the journal when the process was killed.
"""


class BatchDesk:
    """Queue of requests for a batch endpoint. It belongs to one event loop.

    Args:
        model: Model at the endpoint, whose client sends requests and uploads.
    """

    def __init__(
        self, model: "BatchModel", folder: Path, url: str, policy: BatchPolicy | None = None
    ) -> None:
        self._model, self._folder, self._url = model, folder, url
        self._policy = policy or BatchPolicy()
        self._batches: dict[str, Batch] = {}
        """Key of a request -> batch that contains it."""
        self._results: dict[str, asyncio.Task[Lines]] = {}
        """Name of a batch -> task that waits for the batch's answers."""
        self._waiting: dict[str, tuple[Mapping[str, Any], asyncio.Future[bytes | Fault]]] = {}
        self._n_bytes = 0
        self._last_came_s = 0.0
        self._gathering: asyncio.Task[None] | None = None
        self._sent: set[asyncio.Task[None]] = set()
        self._bodies: dict[str, Mapping[str, Any]] = {}
        """Key of a request -> its body, needed to interpret a rejection."""
        self._files: set[Path] = set()
        self._scanned_at = -1.0

    def _scan(self) -> None:
        """Read the records of batches that other processes created, whether killed or running."""
        try:
            changed_at = self._folder.stat().st_mtime
        except OSError:
            return
        if changed_at != self._scanned_at:
            self._scanned_at = changed_at
            for path in sorted({*self._folder.glob("*.json")} - self._files):
                self._files.add(path)
                self._resume(path)

    def _resume(self, path: Path) -> None:
        try:
            batch = Batch(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):  # Its process has just removed it.
            return
        if batch.ended_at and time.time() - batch.ended_at > _REMEMBERED_S:
            path.unlink(missing_ok=True)
        elif batch.url == self._url:
            self._batches.update(
                (key, batch)
                for key in batch.keys
                if key not in batch.failed and key not in self._batches
            )

    async def ask(self, body: Mapping[str, Any]) -> bytes | Fault:
        """Return the answer to a request: the response's body, or the fault of request or batch."""
        key = content_id(body)
        self._bodies[key] = body
        if key not in self._batches:
            self._scan()
        batch = self._batches.get(key)
        if batch is not None:
            outcome = await self._outcome(batch, key)
            if outcome is not None:
                return outcome
        if key in self._waiting:
            return await asyncio.shield(self._waiting[key][1])
        future: asyncio.Future[bytes | Fault] = asyncio.get_running_loop().create_future()
        size = len(json_bytes(body))
        if self._waiting and self._n_bytes + size > self._policy.most_bytes:
            self._send()
        self._waiting[key] = body, future
        self._n_bytes += size
        self._last_came_s = time.monotonic()
        if len(self._waiting) >= self._policy.most_requests:
            self._send()
        elif self._gathering is None or self._gathering.done():
            self._gathering = asyncio.create_task(self._gather())
        return await asyncio.shield(future)

    async def aclose(self) -> None:
        """Stop waiting. Running batches continue at the endpoint, and a later desk finds them."""
        tasks = [
            *self._sent,
            *self._results.values(),
            *([self._gathering] if self._gathering else []),
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _gather(self) -> None:
        while (rest := self._last_came_s + self._policy.quiet_s - time.monotonic()) > 0:
            await asyncio.sleep(rest)
        self._send()

    def _send(self) -> None:
        waiting, self._waiting, self._n_bytes = self._waiting, {}, 0
        if waiting:
            task = asyncio.create_task(self._send_and_wait(waiting))
            self._sent.add(task)
            task.add_done_callback(self._sent.discard)

    async def _send_and_wait(
        self, waiting: Mapping[str, tuple[Mapping[str, Any], asyncio.Future[bytes | Fault]]]
    ) -> None:
        batch = Batch(name=uuid.uuid4().hex, keys=list(waiting), url=self._url)
        lines: Lines = {}
        try:
            fault = await self._make(batch, {key: body for key, (body, _) in waiting.items()})
            if fault is not None:
                lines = dict.fromkeys(waiting, fault)
            else:
                self._batches.update(dict.fromkeys(waiting, batch))
                lines = await self._lines(batch)
        finally:
            for key, (_, future) in waiting.items():
                if not future.done():
                    future.set_result(
                        lines.get(key)
                        or Fault("transient", f"batch {batch.batch_id} returned no answer", 408)
                    )

    async def _make(self, batch: Batch, bodies: Mapping[str, Mapping[str, Any]]) -> Fault | None:
        """Create a batch. Return the fault if that fails."""
        rows = (
            {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            for key, body in bodies.items()
        )
        uploaded = await self._model.upload(
            f"{batch.name}.jsonl", b"".join(json_bytes(row) + b"\n" for row in rows)
        )
        if isinstance(uploaded, Fault):
            return uploaded
        batch.file_id = str(read_object(uploaded).get("id", ""))
        # Written before the batch is created: if this process is killed in between, the next one
        # finds the batch by its name.
        self._keep(batch)
        response = await self._model.send(
            "/batches",
            {
                "input_file_id": batch.file_id,
                "endpoint": ENDPOINT,
                "completion_window": self._policy.window,
                "metadata": {METADATA: batch.name},
            },
        )
        is_unsure = isinstance(response, Fault) and (
            response.status is None or response.status >= 500
        )
        state = await self._find_batch(batch) if is_unsure else read_object(response)
        if isinstance(state, Fault):
            return state  # its file stays for the next process
        batch.batch_id = str(state.get("id", ""))
        if not batch.batch_id:
            self._path(batch).unlink(missing_ok=True)
            return (
                response
                if isinstance(response, Fault)
                else Fault("transient", "the endpoint returned no id of the batch")
            )
        self._note(batch, state)
        return None

    async def _get_with_retries(self, path: str) -> bytes | Fault:
        """Read a path, retrying during short outages.

        The result is a fault if the fault is permanent or the outage lasts too long.
        """
        wait_s, n_faults = self._policy.poll_s, 0
        while True:
            answer = await self._model.send(path)
            n_faults += 1
            if (
                not isinstance(answer, Fault)
                or answer.kind == "permanent"
                or n_faults == self._policy.most_faults
            ):
                return answer
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._policy.slowest_poll_s)

    async def _find_batch(self, batch: Batch) -> Mapping[str, Any] | Fault:
        """Return a batch from the endpoint's list by its name, or {} if it was never created."""
        after = ""
        while True:
            answer = await self._get_with_retries(f"/batches?limit={_LISTED}{after}")
            if isinstance(answer, Fault):
                return answer
            listed = read_object(answer)
            rows: Sequence[Mapping[str, Any]] = listed.get("data") or ()
            for row in rows:
                if (row.get("metadata") or {}).get(METADATA) == batch.name:
                    return row
            if not listed.get("has_more") or not rows:
                return {}
            after = f"&after={rows[-1]['id']}"

    async def _outcome(self, batch: Batch, key: str) -> bytes | Fault | None:
        """Return a known batch's result for a request, or None to send the request again."""
        outcome = (await self._lines(batch)).get(key)
        is_again = (
            isinstance(outcome, Fault)
            and outcome.kind in ("transient", "overload")
            and key in batch.failed
        )
        return None if is_again else outcome

    def _forget(self, batch: Batch) -> None:
        self._path(batch).unlink(missing_ok=True)
        self._batches = {key: other for key, other in self._batches.items() if other is not batch}

    async def _lines(self, batch: Batch) -> Lines:
        if batch.name not in self._results:
            self._results[batch.name] = asyncio.create_task(self._wait_for_lines(batch))
        return await asyncio.shield(self._results[batch.name])

    async def _wait_for_lines(self, batch: Batch) -> Lines:
        lines: dict[str, bytes | Fault] = {}
        try:
            if not batch.batch_id and not await self._is_found(batch):
                self._forget(batch)
                return {}
            state = await self._wait_until_ended(batch)
            for name in ("output_file_id", "error_file_id"):
                if state.get(name):
                    lines.update(await self._file(str(state[name])))
        except _OutOfReach as error:
            self._results.pop(batch.name, None)
            return dict.fromkeys(batch.keys, error.fault)
        rest = missing_answer_fault(
            state, lambda status, text: self._model.refusal(status, text, {})
        )
        lines = {key: lines.get(key, rest) for key in batch.keys}
        batch.failed = [key for key, line in lines.items() if isinstance(line, Fault)]
        batch.ended_at = time.time()
        self._batches = {
            key: b for key, b in self._batches.items() if b is not batch or key not in batch.failed
        }
        self._keep(batch)
        return lines

    async def _is_found(self, batch: Batch) -> bool:
        state = await self._find_batch(batch)
        if isinstance(state, Fault):
            raise _OutOfReach(state)
        batch.batch_id = str(state.get("id", ""))
        if batch.batch_id:
            self._keep(batch)
        return bool(batch.batch_id)

    async def _wait_until_ended(self, batch: Batch) -> Mapping[str, Any]:
        """Poll a batch's state until it has ended. Raises _OutOfReach."""
        wait_s = self._policy.poll_s
        while True:
            answer = await self._get_with_retries(f"/batches/{batch.batch_id}")
            if isinstance(answer, Fault):
                if answer.status == 404:
                    return {"id": batch.batch_id, "status": "lost"}
                raise _OutOfReach(answer)
            state = read_object(answer)
            self._note(batch, state)
            if batch.status in TERMINAL:
                return state
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._policy.slowest_poll_s)

    async def _file(self, file_id: str) -> dict[str, bytes | Fault]:
        """Return the answers and faults in a results file, by key of the request."""
        content = await self._get_with_retries(f"/files/{file_id}/content")
        if isinstance(content, Fault):
            raise _OutOfReach(content)
        rows = (read_object(line) for line in content.splitlines() if line.strip())
        return {str(row["custom_id"]): self._line(row) for row in rows if "custom_id" in row}

    def _line(self, row: Mapping[str, Any]) -> bytes | Fault:
        body = self._bodies.get(str(row["custom_id"]), {})
        return read_line(row, lambda status, text: self._model.refusal(status, text, body))

    def _note(self, batch: Batch, state: Mapping[str, Any]) -> None:
        status, counts = str(state.get("status", batch.status)), state.get("request_counts") or {}
        n_completed = int(counts.get("completed") or 0)
        if (status, n_completed) != (batch.status, batch.n_completed):
            batch.status, batch.n_completed = status, n_completed
            self._keep(batch)

    def _keep(self, batch: Batch) -> None:
        self._files.add(self._path(batch))
        replace_file(self._path(batch), json.dumps(batch.__dict__).encode())

    def _path(self, batch: Batch) -> Path:
        return self._folder / f"{batch.name}.json"


class _OutOfReach(Exception):
    """Error for a batch whose state or answers could not be read.

    It may continue at the endpoint.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault
