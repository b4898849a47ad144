"""Models that Parley serves itself on this machine's loopback: which server each needs, and where it is reached."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from schemas.run import ModelEndpoint, ModelIdentity, Provider
from tasks.language.servers.vllm_command import find_program, serve_commands, served_name
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
    if identity.provider is Provider.EMBEDDED:
        from tasks.language.servers.embedded_server import embedded_server

        with embedded_server(logs) as address:
            yield endpoint.model_copy(update={"base_url": address})
        return
    from tasks.language.servers.vllm_server import vllm_servers

    settings, name = settings or VllmSettings(), served_name(identity)
    place = endpoint.path or identity.name
    commands = serve_commands(identity, place, settings, revision=revision, program=find_program(settings))
    log = logs / f"vllm-{identity.name.replace('/', '--')}.log"
    limits = {"ready_s": settings.ready_s, "restarts": settings.restarts}
    on_progress("starts vLLM")
    with ExitStack() as servers:
        try:
            started = vllm_servers(identity.label, commands, name, log, **limits, on_progress=on_progress)
            first, *others = servers.enter_context(started)
        finally:
            on_progress("")
        replicas = (first, *others) if others else ()
        yield endpoint.model_copy(update={"base_url": first, "served_name": name, "replicas": replicas})
