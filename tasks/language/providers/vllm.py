"""Weights that Parley serves by vLLM: `vllm:PATH_OR_REPO`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

from schemas.errors import UsageError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.providers.contract import ModelChoice, ModelProvider, ServeRequest, SpecSettings
from tasks.language.providers.openai import open_served
from tasks.language.servers.vllm_command import (
    engine_version,
    find_program,
    serve_commands,
    served_name,
)
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.language.weights import WEIGHTS, weight_files, weights_digest

NAME = "vllm"
_LOGS_IN_USE: set[Path] = set()
_LOGS_LOCK = Lock()


def read(rest: str, given: SpecSettings) -> ModelChoice:
    """Return the model of a spec: a folder of weights, or a repository's name."""
    given.refuse_address()
    folder = Path(rest).expanduser()
    if folder.is_dir():
        if not weight_files(folder.resolve()):
            raise UsageError(
                f"model {given.text!r}: no file of weights lies in {folder.resolve()}"
                f" ({', '.join(WEIGHTS)})"
            )
        identity = ModelIdentity(
            provider=NAME,
            name=given.name or folder.resolve().name,
            revision=given.revision or engine_version(given.serve),
            weights_digest=weights_digest(folder.resolve(), given.digests),
            serving=given.serve.in_id,
        )
        return ModelChoice(identity, ModelEndpoint(path=str(folder.resolve())))
    if rest.startswith((".", "/", "~")) or rest.count("/") != 1:
        raise UsageError(
            f"model {given.text!r}: no such folder, and no repository name (ORGANISATION/NAME)"
            " either"
        )
    given.refuse_name()
    identity = ModelIdentity(
        provider=NAME, name=rest, revision=given.unpinned, serving=given.serve.in_id
    )
    return ModelChoice(identity, ModelEndpoint(path=rest))


@contextmanager
def serve(request: ServeRequest) -> Iterator[ModelEndpoint]:
    """Serve the model while the block runs; yields where it and its replicas are reached."""
    from tasks.language.servers.vllm_server import vllm_servers

    identity, settings = request.identity, request.settings or VllmSettings()
    name, place = served_name(identity), request.endpoint.path or identity.name
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
        yield request.endpoint.model_copy(
            update={"base_url": first, "served_name": name, "replicas": replicas}
        )


@contextmanager
def _own_log(wanted: Path) -> Iterator[Path]:
    """Give a log that no other server of this process writes now: models of one name may be served at once."""
    with _LOGS_LOCK:
        log = next(
            path
            for path in (
                wanted,
                *(wanted.with_stem(f"{wanted.stem}-{n}") for n in range(2, len(_LOGS_IN_USE) + 3)),
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
    place = request.endpoint.path or request.identity.name
    settings = request.settings or VllmSettings()
    commands = serve_commands(request.identity, place, settings, revision=request.revision)
    return [command.shown() for command in commands]


def lacks_engine(rest: str, settings: VllmSettings | None) -> bool:
    """Tell whether the version of vLLM is part of the model's identity, and vLLM is not on this machine."""
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
