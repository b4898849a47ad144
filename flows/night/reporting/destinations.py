"""Where a night's messages go, and how they are sent.

A webhook's URL lets anybody who knows it speak in the owner's name, so it is a secret: a configuration names the variable or the
Prefect block that holds it. A message that cannot be sent fails no night, and no log shows where it was to go.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from urllib.request import Request, urlopen

from pydantic import Field, model_validator

from flows.night.reporting.events import EVENTS
from flows.night.reporting.messages import Event, Message
from flows.orchestration.notification import send_by_block
from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.errors import ConfigError
from schemas.outside.secret_names import looks_secret

SEND_LIMIT_S = 10.0
_log = logging.getLogger("parley.notify")


class Notify(Frozen):
    """Which events to notify about, and where. Safe to show: it is a Prefect parameter."""

    events: tuple[Event, ...] = Field(
        default=("failure", "withheld", "budget", *EVENTS), min_length=1
    )
    """`summary` is one message a night about all checkpoints, and no default."""
    mute: bool = True
    """Report a failure that repeats from night to night once, and list it in later messages; false: report it each night."""
    webhook_env: str | None = None
    """Variable that holds a URL. It gets a JSON object by POST: `event`, `title` and `text`."""
    apprise_env: str | None = None
    """Variable that holds URLs of Apprise (`slack://…`, `mailto://…`), separated by blanks."""
    block: str | None = None
    """Prefect notification block, as `TYPE/NAME`: `slack-webhook/nights`."""

    @model_validator(mode="after")
    def _names_secrets(self) -> "Notify":
        for field, name in (("webhook_env", self.webhook_env), ("apprise_env", self.apprise_env)):
            if name is not None and not (name.isidentifier() and looks_secret(name)):
                raise ConfigError(
                    f"notify.{field} does not name a variable that programs and servers never get (and is not shown, in case it"
                    " is the URL itself). Put the URL into a variable with WEBHOOK, APPRISE or SECRET in its name; give that name"
                )
        if self.webhook_env is self.apprise_env is self.block is None:
            raise ConfigError("notify names no place: give webhook_env, apprise_env or block")
        return self

    @property
    def addressee(self) -> str:
        """Digest that is equal for equal destinations."""
        return content_id([self.webhook_env, self.apprise_env, self.block])[:12]


def send(notify: Notify | None, messages: Sequence[Message]) -> bool:
    """Send the messages whose events are asked for; a destination that cannot be reached is logged, without its address.

    Returns:
        Whether each of them reached a destination.
    """
    if notify is None:
        return True
    asked = [message for message in messages if message.event in notify.events]
    reached = [[_delivered(message, *place) for place in _places(notify)] for message in asked]
    return all(any(places) for places in reached)


def _delivered(message: Message, place: str, deliver: Callable[[Message], None]) -> bool:
    try:
        deliver(message)
    except Exception as error:  # noqa: BLE001  (a message is not the work: the night goes on)
        _log.warning(
            "message %r could not be sent to %s: %s", message.title, place, type(error).__name__
        )
        return False
    return True


def _places(notify: Notify) -> Iterator[tuple[str, Callable[[Message], None]]]:
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
    """Post by urllib, which raises for all but success; httpx would log the URL."""
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

    places = apprise.Apprise()
    if not (places.add(list(urls)) and places.notify(title=message.title, body=message.text)):
        raise OSError
