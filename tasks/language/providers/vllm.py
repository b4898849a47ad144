"""Weights that Parley serves by vLLM: `vllm:PATH_OR_REPO`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

from schemas.errors import UsageError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.access import ModelAccess
from tasks.language.providers.contract import ModelProvider, ServeRequest, SpecSettings
from tasks.language.providers.openai import open_served
from tasks.language.servers.vllm_settings import (
    VllmSettings,
    engine_version,
    find_program,
    serve_commands,
    served_name,
)
from tasks.language.weights import WEIGHTS, weight_files, weights_digest

NAME = "vllm"
_LOGS_IN_USE: set[Path] = set()
_LOGS_LOCK = Lock()


def read(rest: str, settings: SpecSettings) -> ModelAccess:
    """Return the model of a spec: a folder of weights, or a repository's name."""
    settings.refuse_key()
    folder = Path(rest).expanduser()
    if folder.is_dir():
        if not weight_files(folder.resolve()):
            raise UsageError(
                f"model {settings.text!r}: {folder.resolve()} contains no file of weights"
                f" ({', '.join(WEIGHTS)})"
            )
        identity = ModelIdentity(
            provider=NAME,
            name=settings.name or folder.resolve().name,
            revision=settings.revision or engine_version(settings.serve),
            weights_digest=weights_digest(folder.resolve(), settings.digests),
            serving=settings.serve.in_id,
        )
        return ModelAccess(identity, ModelEndpoint(path=str(folder.resolve())))
    if rest.startswith((".", "/", "~")) or rest.count("/") != 1:
        raise UsageError(
            f"model {settings.text!r}: the part after the colon is neither an existing folder nor"
            " a repository's name ORGANISATION/NAME"
        )
    settings.refuse_name()
    identity = ModelIdentity(
        provider=NAME, name=rest, revision=settings.unpinned, serving=settings.serve.in_id
    )
    return ModelAccess(identity, ModelEndpoint(path=rest))


@contextmanager
def serve(request: ServeRequest) -> Iterator[ModelEndpoint]:
    """Serve the model during the block. Yield its endpoint with all replicas."""
    from tasks.language.servers.vllm_server import vllm_servers

    identity, endpoint = request.access.identity, request.access.endpoint
    settings = request.settings or VllmSettings()
    name, place = served_name(identity), endpoint.path or identity.name
    commands = serve_commands(
        identity, place, settings, revision=request.revision, program=find_program(settings)
    )
    limits = {"ready_s": settings.ready_s, "restarts": settings.restarts}
    request.on_progress("starts vLLM")
    with ExitStack() as servers:
        log = servers.enter_context(
            _own_log(request.logs / f"vllm-{identity.name.replace('/', '--')}.log")
        )
        try:
            started = vllm_servers(
                identity.label, commands, name, log, **limits, on_progress=request.on_progress
            )
            first, *others = servers.enter_context(started)
        finally:
            request.on_progress("")
        replicas = (first, *others) if others else ()
        yield endpoint.model_copy(
            update={"base_url": first, "served_name": name, "replicas": replicas}
        )


@contextmanager
def _own_log(default: Path) -> Iterator[Path]:
    """Yield a log that no other server of this process writes.

    Models of one name may be served simultaneously.
    """
    with _LOGS_LOCK:
        log = next(
            path
            for path in (
                default,
                *(
                    default.with_stem(f"{default.stem}-{n}")
                    for n in range(2, len(_LOGS_IN_USE) + 3)
                ),
            )
            if path not in _LOGS_IN_USE
        )
        _LOGS_IN_USE.add(log)
    try:
        yield log
    finally:
        with _LOGS_LOCK:
            _LOGS_IN_USE.discard(log)


def shown_commands(request: ServeRequest) -> Sequence[str]:
    """Return the commands that `serve` would start."""
    identity = request.access.identity
    place = request.access.endpoint.path or identity.name
    settings = request.settings or VllmSettings()
    commands = serve_commands(identity, place, settings, revision=request.revision)
    return [command.shown() for command in commands]


def lacks_engine(rest: str, settings: VllmSettings | None) -> bool:
    """Return True if the model's identity contains vLLM's version, and vLLM is not installed."""
    if not Path(rest).expanduser().is_dir():
        return False
    try:
        find_program(settings or VllmSettings())
    except UsageError:
        return True
    return False


PROVIDER = ModelProvider(
    forms=("vllm:PATH_OR_REPO",),
    read=read,
    open=open_served,
    serve=serve,
    serve_commands=shown_commands,
    takes_serve_settings=True,
    lacks_engine=lacks_engine,
)
