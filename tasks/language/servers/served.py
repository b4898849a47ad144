"""Models that Parley serves on this machine's loopback."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.providers.contract import ServeRequest
from tasks.language.providers.registry import PROVIDERS
from tasks.language.servers.vllm_settings import VllmSettings


@contextmanager
def serving(
    identity: ModelIdentity,
    endpoint: ModelEndpoint,
    settings: VllmSettings | None,
    revision: str | None,
    logs: Path,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[ModelEndpoint]:
    """Serve a model during the block. Yield its endpoint.

    Args:
        identity: Model to serve.
        endpoint: Endpoint without an address, with the model's path.
        settings: Settings of vLLM.
        revision: Revision of a repository, as the user states it.
        logs: Folder of the servers' logs.
        on_progress: Called with the phase of a starting server, and with an empty text at the end.

    Raises:
        ConfigError: Parley cannot serve this kind of model.
        UsageError: An extra is not installed.
        ModelUnavailable: A server did not start.
    """
    serve = PROVIDERS.load(identity.provider).serve
    if serve is None:
        raise ConfigError(f"model {identity.label}: Parley cannot serve this kind of model")
    with serve(
        ServeRequest(identity, endpoint, settings, revision, logs, on_progress)
    ) as served_endpoint:
        yield served_endpoint
