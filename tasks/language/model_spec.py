"""Model specs: the text by which users name a model (`openai:gpt-5@https://...`) -> who it is, and where it is reached."""

from datetime import UTC, datetime
from urllib.parse import quote

from schemas.errors import ConfigError, UnknownName
from schemas.outside.display import is_plain_name, plain_line
from tasks.language.providers.contract import ModelChoice as ModelChoice  # what a spec is read to
from tasks.language.providers.contract import SpecSettings
from tasks.language.providers.registry import PROVIDERS, forms
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.storage.file_digests import FileDigests

_LONGEST_NAME = 240
"""Bytes of a model's label, quoted as in a folder's name; file systems take 255."""


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
        text: one of `forms()`. MODEL may hold `/`, `:` and `@`; the last `@http` begins the address.
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
    if not colon or provider not in PROVIDERS.names():
        remedy = f"For an API's model write openai:{text}" if text and not colon else ""
        raise UnknownName("model", text, forms(), remedy)
    if not rest:
        raise ConfigError(
            f"model {text!r}: nothing follows the colon; write one of {', '.join(forms())}"
        )
    day = today or datetime.now(UTC).strftime("%Y-%m-%d")
    given = SpecSettings(
        text,
        day,
        base_url,
        key_env,
        revision,
        name,
        digests or FileDigests(),
        serve or VllmSettings(),
    )
    if not is_plain_name(text + (revision or "") + (name or "")):
        raise ConfigError(
            f"model {text!a}: control characters and unpaired surrogates have no place in a name or revision"
        )
    choice = PROVIDERS.load(provider).read(rest, given)
    if len(quote(choice.identity.label, safe="")) > _LONGEST_NAME:
        shown = plain_line(choice.identity.label, 40)
        raise ConfigError(
            f"model {shown!r}: its name is too long for the folder that its results get; give it a shorter one"
        )
    return choice
