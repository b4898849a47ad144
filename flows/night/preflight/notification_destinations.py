"""Checks before a night that notifications and metrics can be sent.

Without the checks, a night that cannot send its notifications would end without notice to anyone.
"""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from flows.night.reporting.destinations import Notify
from flows.orchestration.notification import knows_block
from schemas.errors import ConfigError
from tasks.storage.home import Home


def require_places(
    notify: Notify | None,
    home: Home,
    print_line: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Check the environment variables and the Prefect block that `notify` names.

    Args:
        notify: Notification settings, if any.
        home: Parley's data folder.
        print_line: Function that receives a line if the block was not checked, since no Prefect
            server answers.
        environ: Environment variables.

    Raises:
        ConfigError: A variable is not set or is not a URL, or Prefect has no such block.
    """
    if notify is None:
        return
    for field, name in (("webhook_env", notify.webhook_env), ("apprise_env", notify.apprise_env)):
        if name is not None and not environ.get(name, "").strip():
            raise ConfigError(
                f"notify.{field}: the variable {name} is not set here, so no notification could be"
                " sent."
                " Set it in the environment of the night (for a deployed night, that of its Prefect"
                f" worker), or remove {field}"
            )
    webhook = notify.webhook_env
    if webhook is not None and not environ[webhook].startswith(("http://", "https://")):
        raise ConfigError(
            f"notify.webhook_env: the value of the variable {webhook} (not shown) does not begin"
            " with http:// or https://. Set it to the full URL of the webhook"
        )
    if notify.block is not None:
        _require_block(notify.block, home, print_line)


def _require_block(block: str, home: Home, print_line: Callable[[str], None]) -> None:
    exists = knows_block(block, home.path)
    if exists is None:
        print_line(
            f"notify.block: no Prefect server answers now, so the block {block!r} was not checked."
            " The night checks it"
        )
    elif not exists:
        raise ConfigError(
            f"notify.block: the Prefect server has no notification block {block!r}. Create it in"
            " Prefect's UI under Blocks, or name an existing one as TYPE/NAME"
            " (`prefect block ls` lists them)"
        )


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
    from flows.night.preflight.checks import require_shared_call_log

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
