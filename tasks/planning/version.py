"""Version of the installed Parley."""

import importlib.metadata


def parley_version() -> str:
    """Return the version of the installed distribution; `unknown` if it is not installed."""
    try:
        return importlib.metadata.version("parley-eval")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
