"""Models that Parley serves itself on this machine's loopback: which server each needs, and where it is reached."""

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
    """Serve a model while the block runs; yields where it is reached.

    Args:
        settings: of vLLM.
        revision: of a repository, as the user states it.
        logs: folder for what the servers write.
        on_progress: gets what the servers are at while they start, and an empty text when they are ready.

    Raises:
        UsageError: an extra is not installed.
        ModelUnavailable: a server did not start.
    """
    serve = PROVIDERS.load(identity.provider).serve
    if serve is None:
        raise ConfigError(f"model {identity.label}: Parley starts no server for it")
    with serve(ServeRequest(identity, endpoint, settings, revision, logs, on_progress)) as place:
        yield place
