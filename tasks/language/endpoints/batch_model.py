"""A model whose requests go to its endpoint's batches: each takes up to a day and costs half."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.endpoints.batch_desk import BatchDesk
from tasks.language.endpoints.batch_files import BatchPolicy
from tasks.language.endpoints.call_policy import CallPolicy
from tasks.language.endpoints.endpoint_pool import EndpointPool
from tasks.language.endpoints.faults import Fault
from tasks.language.endpoints.openai_model import OpenAIModel
from tasks.language.sends import OnSend, ignore_send

PATIENCE_S = 7 * 86_400.0
"""No new try of a request begins later than this after its first one."""


class BatchModel(OpenAIModel):
    """Belongs to the event loop of its first call."""

    sends_one_first = False
    """All requests go together: the upload of a batch finds out a refused key."""

    def __init__(
        self,
        identity: ModelIdentity,
        endpoint: ModelEndpoint,
        folder: Path,
        *,
        policy: CallPolicy | None = None,
        batches: BatchPolicy | None = None,
        environ: Mapping[str, str] | None = None,
        on_send: OnSend = ignore_send,
    ) -> None:
        """Raises ConfigError where the key's variable is not set.

        Args:
            folder: keeps what batches are under way.
            on_send: as for `OpenAIModel`; a line of a batch is one send.
        """
        super().__init__(identity, endpoint, policy=policy, environ=environ, on_send=on_send)
        self._folder, self._batches = folder, batches
        self._desk: BatchDesk | None = None

    async def call(
        self, pool: EndpointPool, path: str, body: dict[str, Any] | None = None
    ) -> bytes | Fault:
        """Send one request; one for an answer is gathered with others and waits for its batch."""
        if path != "/chat/completions" or body is None:
            return await super().call(pool, path, body)
        if self._desk is None:
            self._desk = BatchDesk(_Transport(self, pool), self._folder, self.url, self._batches)
        return await self._desk.ask(body)

    async def send(
        self, pool: EndpointPool, path: str, body: Mapping[str, Any] | None
    ) -> bytes | Fault:
        """Send one request at once."""
        return await super().call(pool, path, None if body is None else dict(body))

    def refusal(self, status: int, text: str, body: Mapping[str, Any]) -> Fault:
        """Read an error that came within a file of answers."""
        return self._refusal(status, text, {}, body)

    async def aclose(self) -> None:
        """Stop asking for batches and leave the endpoint's pool. Batches go on at the endpoint."""
        desk, self._desk = self._desk, None
        if desk is not None:
            await desk.aclose()
        await super().aclose()


class _Transport:
    """Sends the requests of a desk by the model's own client."""

    def __init__(self, model: BatchModel, pool: EndpointPool) -> None:
        self._model, self._pool = model, pool

    async def call(self, path: str, body: Mapping[str, Any] | None = None) -> bytes | Fault:
        """See `BatchTransport.call`."""
        return await self._model.send(self._pool, path, body)

    async def upload(self, name: str, content: bytes) -> bytes | Fault:
        """See `BatchTransport.upload`."""
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
        """See `BatchTransport.refusal`."""
        return self._model.refusal(status, text, body)
