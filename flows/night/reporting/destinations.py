"""Destinations of a night's notifications, and how they are sent.

Anyone who knows a webhook's URL can post in the owner's name, so the URL is a secret: the
configuration names the variable or the Prefect block that contains it. A notification that cannot
be sent fails no night, and no log shows its destination's address.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from urllib.request import Request, urlopen

from pydantic import Field, model_validator

from flows.night.reporting.events import EVENTS, Event, Message
from flows.orchestration.notification import send_by_block
from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.errors import ConfigError
from schemas.outside.secret_names import looks_secret

SEND_LIMIT_S = 10.0
_log = logging.getLogger("parley.notify")


class Notify(Frozen):
    """Which events to notify about, and where.

    The settings contain no secret, because Prefect stores and shows them as a flow's parameter.
    """

    events: tuple[Event, ...] = Field(
        default=("failure", "withheld", "budget", *EVENTS), min_length=1
    )
    """Events to notify about.

    `summary` is one notification a night about all checkpoints, off by default.
    """
    mute: bool = True
    """Report a repeating failure once and list it in later notifications (default).

    If false, report it each night.
    """
    webhook_env: str | None = None
    """Environment variable that contains a URL.

    Parley posts a JSON object to it: `event`, `title` and `text`.
    """
    apprise_env: str | None = None
    """Environment variable with Apprise URLs (`slack://…`, `mailto://…`), separated by blanks."""
    block: str | None = None
    """Prefect notification block as `TYPE/NAME`, such as `slack-webhook/nights`."""

    @model_validator(mode="after")
    def _require_secret_variables(self) -> "Notify":
        for field, name in (("webhook_env", self.webhook_env), ("apprise_env", self.apprise_env)):
            if name is not None and not (name.isidentifier() and looks_secret(name)):
                raise ConfigError(
                    f"notify.{field} must be the name of an environment variable with WEBHOOK,"
                    " APPRISE"
                    " or SECRET in its name, which Parley hides from programs and servers. Store"
                    " the"
                    " URL in such a variable and give its name. (The value is not shown, since it"
                    " may be the URL itself.)"
                )
        if self.webhook_env is self.apprise_env is self.block is None:
            raise ConfigError("notify has no destination: set webhook_env, apprise_env or block")
        return self

    @property
    def addressee(self) -> str:
        """Return a digest of the destinations. Equal destinations have equal digests."""
        return content_id([self.webhook_env, self.apprise_env, self.block])[:12]


def send(notify: Notify | None, messages: Sequence[Message]) -> bool:
    """Send the messages whose events are selected.

    Log an unreachable destination without its address.

    Returns:
        True if each message reached at least one destination.
    """
    if notify is None:
        return True
    selected = [message for message in messages if message.event in notify.events]
    deliveries = [
        [_try_to_deliver(message, *destination) for destination in _destinations(notify)]
        for message in selected
    ]
    return all(any(results) for results in deliveries)


def _try_to_deliver(message: Message, destination: str, deliver: Callable[[Message], None]) -> bool:
    try:
        deliver(message)
    # a notification that fails must not stop the night
    except Exception as error:  # noqa: BLE001  (each service has errors of its own; all are logged)
        _log.warning(
            "Notification %r could not be sent to %s: %s",
            message.title,
            destination,
            type(error).__name__,
        )
        return False
    return True


def _destinations(notify: Notify) -> Iterator[tuple[str, Callable[[Message], None]]]:
    if (webhook := notify.webhook_env) is not None:
        yield f"the webhook in {webhook}", lambda message: _post(os.environ[webhook], message)
    if (apprise := notify.apprise_env) is not None:
        yield (
            f"Apprise's URLs in {apprise}",
            lambda message: _apprise(os.environ[apprise].split(), message),
        )
    if (block := notify.block) is not None:
        yield f"block {block}", lambda message: send_by_block(block, message.title, message.text)


def _post(url: str, message: Message) -> None:
    """Post with urllib, which raises on every status but success. httpx would log the URL."""
    if not url.startswith(("http://", "https://")):
        raise ValueError
    body, headers = (
        message.model_dump_json().encode(),
        {"Content-Type": "application/json", "User-Agent": "parley"},
    )
    with urlopen(Request(url, body, headers), timeout=SEND_LIMIT_S):
        pass


def _apprise(urls: Sequence[str], message: Message) -> None:
    import apprise

    client = apprise.Apprise()
    if not (client.add(list(urls)) and client.notify(title=message.title, body=message.text)):
        raise OSError
