"""Collector of a night's metrics: its address, and checks that metrics can be sent to it."""

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
    """Return the base URL of the collector that receives metrics, or None if metrics are off.

    Args:
        home: Parley's data folder.
        configured: `telemetry` of a night's configuration. It takes precedence over the environment
            variable OTEL_EXPORTER_OTLP_ENDPOINT.
        environ: Environment variables.

    Raises:
        ConfigError: The URL is not an HTTP URL or contains a password, a package is missing, or the
            workers do not share a folder with the driver.
    """
    url = (configured or environ.get(ENDPOINT_VARIABLE, "")).strip()
    if not url or environ.get(_DISABLED_VARIABLE, "").strip().lower() == "true":
        return None
    source = "telemetry" if configured else f"the variable {ENDPOINT_VARIABLE}"
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigError(
            f"{source} contains a user or password (not shown). Remove it from the URL and set a"
            " header instead:"
            " OTEL_EXPORTER_OTLP_HEADERS=authorization=..."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{source}: {url!r} is not an HTTP URL. Use the collector's OTLP over HTTP address,"
            " such as http://localhost:4318"
        )
    if not _is_installed():
        unset = "remove `telemetry`" if configured else f"unset {ENDPOINT_VARIABLE}"
        raise ConfigError(
            f"{source} enables OpenTelemetry metrics, but the exporter is not installed. Run"
            f" `make telemetry` or `pip install 'parley-eval[telemetry]'`, or {unset}"
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
