"""Which environment variables hold keys, by their names: what Parley starts is given only those that it needs."""

import re
from collections.abc import Mapping

SECRET_NAME = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether an environment variable of that name is likely to hold a key. Prefect's own settings are not asked for."""
    return not name.startswith("PREFECT_") and SECRET_NAME.search(name) is not None


def without_secrets(environ: Mapping[str, str], *, keep: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment less what looks like a key and less `drop`; the names in `keep` stay."""
    return {name: value for name, value in environ.items() if name in keep or not (name in drop or looks_secret(name))}
