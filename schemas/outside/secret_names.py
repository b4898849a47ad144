"""Tells by their names which environment variables hold keys. Programs that Parley starts get only the keys they need."""

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|WEBHOOK|APPRISE)(_|$)", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether an environment variable of this name is likely to hold a key. Prefect's own settings never count as keys."""
    return not name.startswith("PREFECT_") and SECRET_NAME.search(name) is not None


def without_secrets(environ: Mapping[str, str], *, keep: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment without keys and without the names in `drop`; the names in `keep` stay."""
    return {name: value for name, value in environ.items() if name in keep or not (name in drop or looks_secret(name))}
