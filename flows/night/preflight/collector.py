"""Finds the collector of a night's metrics, and checks before anything starts that they can be sent."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from flows.night.preflight.shared_folder import require_shared_call_log
from schemas.errors import ConfigError
from tasks.storage.home import Home

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
_DISABLED_VARIABLE = "OTEL_SDK_DISABLED"


def find_collector(
    home: Home, configured: str | None, environ: Mapping[str, str] = os.environ
) -> str | None:
    """Return the base URL of the collector that metrics are sent to; None where none are.

    Args:
        configured: `telemetry` of a night's configuration. It goes before the variable.

    Raises:
        ConfigError: no URL of HTTP, one with a password, a missing package, or workers that share no folder.
    """
    url = (configured or environ.get(ENDPOINT_VARIABLE, "")).strip()
    if not url or environ.get(_DISABLED_VARIABLE, "").strip().lower() == "true":
        return None
    source = "telemetry" if configured else f"the variable {ENDPOINT_VARIABLE}"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigError(
            f"{source} holds a user or password (not shown). Leave it out of the URL, and set a header instead:"
            " OTEL_EXPORTER_OTLP_HEADERS=authorization=..."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{source}: {url!r} is no URL of a collector. Write one like http://localhost:4318 (OTLP over HTTP)"
        )
    if not _is_installed():
        unset = "leave `telemetry` out" if configured else f"unset {ENDPOINT_VARIABLE}"
        raise ConfigError(
            f"{source} asks for metrics by OpenTelemetry, whose exporter is not installed: make telemetry, or pip install"
            f" 'parley-eval[telemetry]'. Or {unset}"
        )
    require_shared_call_log(home)
    return url.rstrip("/")


def _is_installed() -> bool:
    try:
        return all(
            find_spec(name)
            for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
        )
    except ModuleNotFoundError:
        return False
