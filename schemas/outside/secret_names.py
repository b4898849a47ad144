"""Recognition, by name, of environment variables that contain keys.

Programs that Parley starts get only the keys that they need.
"""

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|WEBHOOK|APPRISE)(_|$)",
    re.IGNORECASE,
)

_CARRIES = re.compile(
    r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)
"""Ends of argument and field names whose value is a key. `token-threshold` does not match."""
_FIELD = re.compile(r"""["']([^"']+)["']\s*:""")
_ABBREVIATED = ("api_key", "hf_token")
"""Names that parsers also accept in abbreviated form."""


def secret_in(argument: str) -> str | None:
    """Return the name in a program's argument whose value is likely to be a key; None without one.

    Args:
        argument: `--NAME=…`, or JSON with fields.
    """
    option = argument.partition("=")[0] if argument.startswith("-") else ""
    for name in (option, *_FIELD.findall(argument)):
        last = name.rpartition(".")[2].strip("-+").replace("-", "_")
        is_begun = (
            name == option
            and len(last) > len("api")
            and any(full.startswith(last) for full in _ABBREVIATED)
        )
        if is_begun or _CARRIES.search(last):
            return name
    return None


def looks_secret(name: str) -> bool:
    """Return True if an environment variable of this name is likely to hold a key.

    Prefect's own settings never count as keys.
    """
    return not name.startswith("PREFECT_") and SECRET_NAME.search(name) is not None


def without_secrets(
    environ: Mapping[str, str], *, keep: tuple[str, ...] = (), drop: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the environment without keys and without the names in `drop`. Names in `keep` stay."""
    return {
        name: value
        for name, value in environ.items()
        if name in keep or not (name in drop or looks_secret(name))
    }
