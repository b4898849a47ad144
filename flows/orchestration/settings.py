"""Settings of Prefect, server and client: which server, which database, no telemetry, few words."""

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
ELSEWHERE = (
    *("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE"),
    *("PREFECT_API_DATABASE", "PREFECT_SERVER_DATABASE", "PREFECT_SERVER_API_BASE_PATH"),
)
"""Settings that would lead our server to another server or database."""


def configured_api_url() -> str | None:
    """PREFECT_API_URL of the environment or the active profile, read afresh: Prefect keeps the value at its import.

    Where no place that Prefect looks at can hold it, Prefect is not imported to find out: our server starts meanwhile.
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
    """Ask a configured server whether it is there.

    Raises:
        ServerUnavailable: it is not.
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
            f"no Prefect server answers at PREFECT_API_URL={api_url!r} ({fault}); start it, or unset PREFECT_API_URL "
            "(also in the active Prefect profile) to let Parley run its own"
        )


@contextmanager
def naming_lost_server(api_url: str) -> Iterator[None]:
    """Name a server that stopped answering under a command: Prefect asks again for a minute, then raises httpx's error.

    Raises:
        ServerUnavailable: in place of such an error.
    """
    try:
        yield
    except Exception as error:  # any: httpx is imported only where there is a fault to look at
        import httpx

        if not isinstance(error, httpx.TransportError):
            raise
        raise ServerUnavailable(
            f"the Prefect server at {api_url} stopped answering ({error or type(error).__name__}). Nothing that was finished is"
            " lost: start it again, then type the same command"
        ) from error


def send_what_is_queued() -> None:
    """Let Prefect send the logs and events that its threads still hold, and end these threads.

    The server's end would lose them. A thread that stays sends the events of this process's next server to this one.
    """
    if "prefect" not in sys.modules:
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all(timeout=DRAIN_LIMIT_S)
    APILogWorker.drain_all(timeout=DRAIN_LIMIT_S)


def is_healthy(api_url: str) -> bool:
    """Whether a server on this machine answers; no proxy is asked, whatever the environment says."""
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
    """Where the empty database of this Prefect version is kept between homes."""
    from importlib.metadata import version

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "parley" / f"prefect-{version('prefect')}-sqlalchemy-{version('sqlalchemy')}.db"


def server_environment(folder: Path, port: int, secret_names: tuple[str, ...]) -> dict[str, str]:
    """The caller's environment without keys and other databases, plus settings for a quiet server with a quick start.

    Block types are not registered at the start (0.8 s): a block registers its own type when it is saved.
    """
    kept = without_secrets(os.environ, drop=secret_names)
    kept = {name: value for name, value in kept.items() if not name.startswith(ELSEWHERE)}
    return kept | {
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
    }


def client_settings(folder: Path, api_url: str) -> dict[str, str | None]:
    """Variables that make this process and its children use our server and no other (None: unset)."""
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
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": os.environ.get(
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL"
        ),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }


@contextmanager
def changed_environment(changes: dict[str, str | None]) -> Iterator[None]:
    """Change variables for a while, and let an imported Prefect read them: it keeps the settings of its import otherwise."""
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
