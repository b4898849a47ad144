"""Looks, before a night, whether word of it could be sent: at its end nobody would be told that it cannot."""

import os
from collections.abc import Callable, Mapping

from flows.night.reporting.destinations import Notify
from flows.orchestration.notification import knows_block
from schemas.errors import ConfigError
from tasks.storage.home import Home


def require_places(
    notify: Notify | None,
    home: Home,
    say: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Find the variables and the block that `notify` names.

    Args:
        say: is told of a block that no server could be asked about.

    Raises:
        ConfigError: a variable is not set or holds no URL, or Prefect has no such block.
    """
    if notify is None:
        return
    for field, name in (("webhook_env", notify.webhook_env), ("apprise_env", notify.apprise_env)):
        if name is not None and not environ.get(name, "").strip():
            raise ConfigError(
                f"notify.{field}: the variable {name} is not set here, so that nobody could be told of the night. Set it in the"
                f" environment that nights run in (a deployed night's is its worker's), or leave {field} out"
            )
    webhook = notify.webhook_env
    if webhook is not None and not environ[webhook].startswith(("http://", "https://")):
        raise ConfigError(
            f"notify.webhook_env: what the variable {webhook} holds (not shown) does not begin with http:// or https://. Set it"
            " to the webhook's whole URL"
        )
    if notify.block is not None:
        _require_block(notify.block, home, say)


def _require_block(block: str, home: Home, say: Callable[[str], None]) -> None:
    known = knows_block(block, home.path)
    if known is None:
        say(
            f"notify.block: no Prefect server answers now that could say whether it has the block {block!r}; the night will ask"
        )
    elif not known:
        raise ConfigError(
            f"notify.block: the Prefect server has no notification block {block!r}. Make it in the UI, under Blocks, or name one"
            " that is there as TYPE/NAME (`prefect block ls` lists them)"
        )
