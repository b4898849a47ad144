"""Tells by their names which environment variables hold keys. Programs that Parley starts get only the keys they need."""

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|WEBHOOK|APPRISE)(_|$)",
    re.IGNORECASE,
)

_CARRIES = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)
"""Names of arguments and fields end like this where a key is their value; `token-threshold` does not."""
_FIELD = re.compile(r"""["']([^"']+)["']\s*:""")
_ABBREVIATED = ("api_key", "hf_token")
"""Parsers take the beginning of an argument's name for the whole."""


def secret_in(argument: str) -> str | None:
    """The name in a program's argument (`--NAME=…`, a field of JSON) whose value is likely to be a key; None without one."""
    option = argument.partition("=")[0] if argument.startswith("-") else ""
    for name in (option, *_FIELD.findall(argument)):
        last = name.rpartition(".")[2].strip("-+").replace("-", "_")
        is_begun = (
            name == option
            and len(last) > len("api")
            and any(known.startswith(last) for known in _ABBREVIATED)
        )
        if is_begun or _CARRIES.search(last):
            return name
    return None


def looks_secret(name: str) -> bool:
    """Whether an environment variable of this name is likely to hold a key. Prefect's own settings never count as keys."""
    return not name.startswith("PREFECT_") and SECRET_NAME.search(name) is not None


def without_secrets(
    environ: Mapping[str, str], *, keep: tuple[str, ...] = (), drop: tuple[str, ...] = ()
) -> dict[str, str]:
    """The environment without keys and without the names in `drop`; the names in `keep` stay."""
    return {
        name: value
        for name, value in environ.items()
        if name in keep or not (name in drop or looks_secret(name))
    }
