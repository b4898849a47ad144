"""Which Parley this is."""

import importlib.metadata


def parley_version() -> str:
    """Version of the installed distribution."""
    try:
        return importlib.metadata.version("parley-eval")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
