"""Model specs such as `openai:gpt-5@https://...`: parsing them into identities and endpoints."""

from datetime import UTC, datetime
from urllib.parse import quote

from schemas.errors import ConfigError, UnknownName
from schemas.outside.display import is_plain_name, plain_line
from tasks.language.providers.contract import ModelChoice as ModelChoice
from tasks.language.providers.contract import SpecSettings
from tasks.language.providers.registry import PROVIDERS, forms
from tasks.language.servers.vllm_settings import VllmSettings
from tasks.storage.file_digests import FileDigests

_LONGEST_NAME = 240
"""Maximum bytes of a model's label, quoted as in a folder's name. File systems accept 255."""


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
    """Parse a model spec. Sends nothing, but hashes weights and recordings.

    Args:
        text: Spec in one of `forms()`. MODEL may contain `/`, `:` and `@`; the last
            `@http` begins the address.
        base_url: Base URL of the endpoint.
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
    day = today or datetime.now(UTC).strftime("%Y-%m-%d")
    settings = SpecSettings(
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
            f"model {text!a}: a name or revision must not contain control characters or unpaired"
            " surrogates"
        )
    choice = PROVIDERS.load(provider).read(rest, settings)
    if len(quote(choice.identity.label, safe="")) > _LONGEST_NAME:
        shown = plain_line(choice.identity.label, 40)
        raise ConfigError(
            f"model {shown!r}: its name is too long for a folder name; choose a shorter one"
        )
    return choice
