"""Settings of Prefect's server and client: address, database, no telemetry, little output."""

import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.orchestration.processes import without_secrets
from schemas.errors import ServerUnavailable

LOOPBACK = "127.0.0.1"
HEALTH_LIMIT_S = 5.0
DRAIN_LIMIT_S = 10.0
CERTIFICATE = Path(__file__).with_name("loopback.pem")
"""Certificate whose key was never stored. Each of Prefect's clients loads certificates, although
Parley's own server has no TLS: all usual ones take 0.016 s of CPU time, this one 0.0004 s, and a
command makes eight clients.
"""
ELSEWHERE = (
    *("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE"),
    *("PREFECT_API_DATABASE", "PREFECT_SERVER_DATABASE", "PREFECT_SERVER_API_BASE_PATH"),
)
"""Prefixes of settings that would redirect Parley's own server to another server or database."""


def configured_api_url() -> str | None:
    """Return PREFECT_API_URL of the environment or the active profile, or None.

    The value is read again on each call, because Prefect caches it at import. Prefect is imported
    only if one of its configuration files exists, because the import delays the start of Parley's
    own server.
    """
    os.environ.setdefault("DO_NOT_TRACK", "1")
    if "prefect" not in sys.modules and not _may_be_configured():
        return None
    from prefect.context import root_settings_context

    return root_settings_context().settings.api.url


def _may_be_configured() -> bool:
    if any(name.upper().startswith(("PREFECT_API_URL", "PREFECT_PROFILE")) for name in os.environ):
        return True
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    if any(path.exists() for path in (home / "profiles.toml", Path("prefect.toml"), Path(".env"))):
        return True
    try:
        return "prefect" in tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")).get(
            "tool", {}
        )
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def check_configured(api_url: str) -> None:
    """Check that a configured server answers.

    Raises:
        ServerUnavailable: the server does not answer.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_REQUEST_TIMEOUT, temporary_settings

    with (
        temporary_settings({PREFECT_API_REQUEST_TIMEOUT: HEALTH_LIMIT_S}),
        get_client(sync_client=True) as client,
    ):
        fault = client.api_healthcheck()
    if fault is not None:
        raise ServerUnavailable(
            f"no Prefect server answers at PREFECT_API_URL={api_url!r} ({fault}). Start it, or"
            " unset PREFECT_API_URL "
            "(also in the active Prefect profile) to let Parley run its own"
        )


@contextmanager
def explain_lost_server(api_url: str) -> Iterator[None]:
    """Replace the connection error if the configured server stops answering within the block.

    Prefect retries for a minute, and then raises an error of httpx that does not name the server.

    Raises:
        ServerUnavailable: the server stopped answering.
    """
    try:
        yield
    except Exception as error:  # Any error, because httpx is imported only after one.
        import httpx

        if not isinstance(error, httpx.TransportError):
            raise
        raise ServerUnavailable(
            f"the Prefect server at {api_url} stopped answering"
            f" ({error or type(error).__name__}). Finished work is stored: start the server, then"
            " type the same command to resume"
        ) from error


def flush_prefect_queues() -> None:
    """Send the logs and events that Prefect's threads hold, and end these threads.

    Unsent logs and events would be lost when the server ends. A thread that remains would send
    later events of this process to the old server.
    """
    if "prefect" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all(timeout=DRAIN_LIMIT_S)
    APILogWorker.drain_all(timeout=DRAIN_LIMIT_S)


def is_healthy(api_url: str) -> bool:
    """Return True if a server on this machine answers. Proxies in the environment are ignored."""
    from urllib.error import URLError
    from urllib.request import ProxyHandler, build_opener

    try:
        with build_opener(ProxyHandler({})).open(
            f"{api_url}/health", timeout=HEALTH_LIMIT_S
        ) as answer:
            return answer.status == 200
    except (URLError, OSError):
        return False


def database_template() -> Path:
    """Return the path of the cached empty database of this Prefect version, shared by all homes."""
    from importlib.metadata import version

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "parley" / f"prefect-{version('prefect')}-sqlalchemy-{version('sqlalchemy')}.db"


def server_environment(folder: Path, port: int, secret_names: tuple[str, ...]) -> dict[str, str]:
    """Return the server's environment: the caller's, without API keys and other databases.

    Block types are not registered at the start, which saves 0.8 s. Prefect registers the type of a
    block when a user saves the block. Type checks in docket's key-value store and plug-ins of
    Pydantic are off, which saves 0.05 s of processor time.
    """
    inherited = {
        name: value
        for name, value in without_secrets(os.environ, drop=secret_names).items()
        if not name.startswith(ELSEWHERE)
    }
    return inherited | {
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "PREFECT_HOME": str(folder),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder / 'prefect.db'}",
        "PREFECT_SERVER_API_HOST": LOOPBACK,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_UI_API_URL": f"http://{LOOPBACK}:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
        "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_COLORS": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PY_KEY_VALUE_DISABLE_BEARTYPE": "true",
        "PYDANTIC_DISABLE_PLUGINS": "true",
    }


def client_settings(folder: Path, api_url: str) -> dict[str, str | None]:
    """Return variables that make this process and its children use Parley's own server.

    None: the variable must be unset. Prefect's client fails on a SOCKS proxy in ALL_PROXY, even for
    exempt addresses. Requests to models never use ALL_PROXY.
    """
    exempt = [
        part
        for name in ("no_proxy", "NO_PROXY")
        for part in os.environ.get(name, "").split(",")
        if part
    ]
    no_proxy = ",".join(dict.fromkeys([*exempt, LOOPBACK, "localhost"]))
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_API_KEY": None,
        "PREFECT_PROFILE": None,
        "PREFECT_PROFILES_PATH": None,
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "PREFECT_API_SSL_CERT_FILE": str(CERTIFICATE),
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": os.environ.get(
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL"
        ),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), no_proxy),
        **dict.fromkeys(("ALL_PROXY", "all_proxy")),
    }


@contextmanager
def without_heartbeats() -> Iterator[None]:
    """Run flows within the block without Prefect's heartbeats.

    A heartbeat thread sleeps in steps of a second, and the end of each flow waits for it: 0.5 s of
    every flow. Only a deployed night needs heartbeats, for the automation in `automations.yaml`.
    """
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


@contextmanager
def changed_environment(changes: dict[str, str | None]) -> Iterator[None]:
    """Change environment variables within the block, and reload an imported Prefect's settings."""
    before = {name: os.environ.get(name) for name in changes}
    _set_variables(changes)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if "prefect" not in sys.modules:
        return
    from prefect.context import refresh_global_settings_context
    from prefect.logging.configuration import setup_logging

    refresh_global_settings_context()
    setup_logging()
