"""Model whose requests go to its endpoint's batches. An answer takes up to a day and costs half."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.language.access import ModelAccess
from tasks.language.chat_model import OnSend, ignore_send
from tasks.language.endpoints.batch_desk import BatchDesk
from tasks.language.endpoints.batch_files import BatchPolicy
from tasks.language.endpoints.endpoint_pool import EndpointPool
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.openai_model import OpenAIModel

RETRY_WINDOW_S = 7 * 86_400.0
"""Seconds after the first try of a request after which no new try starts."""


class BatchModel(OpenAIModel):
    """Model at a batch endpoint. It belongs to the event loop of its first call."""

    sends_one_first = False
    """All requests are sent together, since the upload of a batch shows if the key is rejected."""

    def __init__(
        self,
        access: ModelAccess,
        folder: Path,
        *,
        batches: BatchPolicy | None = None,
        environ: Mapping[str, str] | None = None,
        on_send: OnSend = ignore_send,
    ) -> None:
        """Open the model. Raises ConfigError if the key's variable is not set.

        Args:
            access: Access to the model.
            folder: Folder with the files of running batches.
            batches: Policy for batches.
            environ: Environment variables.
            on_send: See `OpenAIModel`. A line of a batch counts as one sent request.
        """
        super().__init__(access, environ=environ, on_send=on_send)
        self._folder, self._batches = folder, batches
        self._desk: BatchDesk | None = None

    async def call(
        self, pool: EndpointPool, path: str, body: dict[str, Any] | None = None
    ) -> bytes | Fault:
        """Send one request.

        A request for an answer is collected with others and waits for its batch.
        """
        if path != "/chat/completions" or body is None:
            return await super().call(pool, path, body)
        if self._desk is None:
            self._desk = BatchDesk(_Transport(self, pool), self._folder, self.url, self._batches)
        return await self._desk.ask(body)

    async def send(
        self, pool: EndpointPool, path: str, body: Mapping[str, Any] | None
    ) -> bytes | Fault:
        """Send one request immediately, outside of a batch."""
        return await super().call(pool, path, None if body is None else dict(body))

    def refusal(self, status: int, text: str, body: Mapping[str, Any]) -> Fault:
        """Return the fault for an error in a results file or in a response of the batch API."""
        return self._refusal(status, text, {}, body)

    async def aclose(self) -> None:
        """Stop waiting for batches and leave the endpoint's pool.

        Batches continue at the endpoint.
        """
        desk, self._desk = self._desk, None
        if desk is not None:
            await desk.aclose()
        await super().aclose()


class _Transport:
    """Transport of a `BatchDesk` that uses the model's own client."""

    def __init__(self, model: BatchModel, pool: EndpointPool) -> None:
        self._model, self._pool = model, pool

    async def call(self, path: str, body: Mapping[str, Any] | None = None) -> bytes | Fault:
        """Send one request. See `BatchTransport.call`."""
        return await self._model.send(self._pool, path, body)

    async def upload(self, name: str, content: bytes) -> bytes | Fault:
        """Upload a file. See `BatchTransport.upload`."""
        import aiohttp

        form = aiohttp.MultipartWriter("form-data")
        form.append("batch").set_content_disposition("form-data", name="purpose")
        form.append(content, {"Content-Type": "application/jsonl"}).set_content_disposition(
            "form-data", name="file", filename=name
        )
        kind = {"Content-Type": form.headers["Content-Type"]}
        try:
            async with self._pool.session.post(
                f"{self._pool.url}/files{self._pool.query}",
                data=form,
                headers=kind,
                allow_redirects=False,
            ) as response:
                data = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return Fault(
                "transient",
                self._model.shown(
                    f"the requests could not be uploaded ({type(error).__name__}: {error})"
                ),
            )
        if 200 <= response.status < 300:
            return data
        return self.refusal(response.status, data.decode("utf-8", "replace"), {})

    def refusal(self, status: int, text: str, body: Mapping[str, Any]) -> Fault:
        """Return a fault. See `BatchTransport.refusal`."""
        return self._model.refusal(status, text, body)
