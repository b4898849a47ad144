"""Sends word of a night: that it failed, withheld a run, met a cap of its budget, or found a model worse than the one before it.

A regression is told once, whichever publication brought it: see `flows.night.telling.regressions`.

A webhook's URL lets anybody who knows it speak in the owner's name, so it is a secret: a configuration names the variable or the
Prefect block that holds it. Word that cannot be sent fails no night, and no log shows where it was to go.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.request import Request, urlopen

from pydantic import Field, model_validator

from flows.night.telling.regressions import Regression, ToldRegressions, regressions
from flows.orchestration.notification import send_by_block
from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.errors import ConfigError, ParleyError, RunsFailed
from schemas.outside.display import plain_line
from schemas.outside.secret_names import looks_secret
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home

SEND_LIMIT_S = 10.0
_TEXT = 4000
"""Characters of a message: chat services cut longer ones, or refuse them."""
_log = logging.getLogger("parley.notify")
Event = Literal["failure", "withheld", "budget", "regression"]
_STATUS_OF: Mapping[Event, str] = {"failure": "failed", "withheld": "withheld", "budget": "incomplete"}


class Notify(Frozen):
    """Of what to send word, and where to. Safe to show: it is a Prefect parameter."""

    events: tuple[Event, ...] = Field(default=("failure", "withheld", "budget", "regression"), min_length=1)
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
        """The same for the same places."""
        return content_id([self.webhook_env, self.apprise_env, self.block])[:12]


class Word(Frozen):
    """One message."""

    event: Event
    title: str
    text: str


def words(reports: Sequence[RunReport]) -> Iterator[Word]:
    """What there is to say of how a night's runs ended: at most one message for each event."""
    for event, status in _STATUS_OF.items():
        lines = [f"{report.title}: {report.reason}" for report in reports if report.status == status]
        if lines:
            yield _word(event, f"{_counted(len(lines), 'run')} {status}", lines)


def begin_telling(notify: Notify | None, home: Home) -> None:
    """Before a publication: where no record of told regressions was begun, those that the tables show already are no news."""
    if notify is None or "regression" not in notify.events:
        return
    with _logging_faults():
        told = ToldRegressions(home, notify.addressee)
        if not told.exists:
            told.keep(regressions(home))


def tell_regressions(notify: Notify | None, home: Home) -> None:
    """Send word of regressions of the published tables of which none was sent, and record it once it has reached a place."""
    if notify is None or "regression" not in notify.events:
        return
    with _logging_faults():
        told, found = ToldRegressions(home, notify.addressee), regressions(home)
        before = told.keys()
        new = [one for one in found if one.key not in before]
        reached = not new or send(notify, [_regression_word(new)])
        told.keep(found if reached else [one for one in found if one.key in before])


@contextmanager
def _logging_faults() -> Iterator[None]:
    try:
        yield
    except (OSError, ParleyError) as error:
        _log.warning("regressions could not be told or recorded as told; a later night may tell them (again): %s", error)


def _regression_word(found: Sequence[Regression]) -> Word:
    n_moved = sum(bool(one.judge_n_changed) for one in found)
    beside = f", {n_moved} of them beside a moved judge" if n_moved else ""
    return _word("regression", _counted(len(found), "regression") + beside, [one.line for one in found])


def source_word(lines: Sequence[str]) -> Word:
    """Word of sources of checkpoints that could not be read, a line each: the night does without what they hold."""
    return _word("failure", f"{_counted(len(lines), 'source')} not read", lines)


@contextmanager
def telling_failure(notify: Notify | None) -> Iterator[None]:
    """Send word of an error that ends the night before its runs are told of."""
    try:
        yield
    except RunsFailed:
        raise
    except Exception as error:
        send(notify, [_word("failure", "the night failed", [str(error) or type(error).__name__])])
        raise


def tell_crash(flow: Any, flow_run: Any, state: Any) -> None:
    """Hook of a deployed night that crashed: killed for want of memory, say. A person who types a command sees its end.

    Args:
        flow: the flow; Prefect names its arguments.
        flow_run: its run.
        state: the state that called the hook.
    """
    if flow_run.deployment_id is not None:
        send(_asked_for(flow_run.parameters), [_word("failure", "night crashed", [str(state.message)])])


def _asked_for(parameters: Mapping[str, Any]) -> Notify | None:
    from flows.night.config import read_config

    if parameters.get("requests") is not None:
        return Notify.model_validate(parameters["notify"]) if parameters.get("notify") else None
    return read_config(Path(parameters.get("config") or "nightly.yaml"), check_names=False).notify


def send(notify: Notify | None, said: Sequence[Word]) -> bool:
    """Send the words whose events are asked for; a place that cannot be reached is logged, without its address.

    Returns:
        Whether each of them reached a place.
    """
    if notify is None:
        return True
    reached = [[_delivered(word, *place) for place in _places(notify)] for word in said if word.event in notify.events]
    return all(any(places) for places in reached)


def _delivered(word: Word, place: str, deliver: Callable[[Word], None]) -> bool:
    try:
        deliver(word)
    except Exception as error:  # noqa: BLE001  (word is not the work: the night goes on)
        _log.warning("no word of %r could be sent to %s: %s", word.title, place, type(error).__name__)
        return False
    return True


def _places(notify: Notify) -> Iterator[tuple[str, Callable[[Word], None]]]:
    if (webhook := notify.webhook_env) is not None:
        yield f"the webhook in {webhook}", lambda word: _post(os.environ[webhook], word)
    if (apprise := notify.apprise_env) is not None:
        yield f"Apprise's URLs in {apprise}", lambda word: _apprise(os.environ[apprise].split(), word)
    if (block := notify.block) is not None:
        yield f"block {block}", lambda word: send_by_block(block, word.title, word.text)


def _post(url: str, word: Word) -> None:
    """By urllib, which raises for all but success; httpx would log the URL."""
    if not url.startswith(("http://", "https://")):
        raise ValueError
    body, headers = word.model_dump_json().encode(), {"Content-Type": "application/json", "User-Agent": "parley"}
    with urlopen(Request(url, body, headers), timeout=SEND_LIMIT_S):
        pass


def _apprise(urls: Sequence[str], word: Word) -> None:
    import apprise

    places = apprise.Apprise()
    if not (places.add(list(urls)) and places.notify(title=word.title, body=word.text)):
        raise OSError


def _word(event: Event, title: str, lines: Sequence[str]) -> Word:
    text = "\n".join(plain_line(line, 1000) for line in lines)
    return Word(event=event, title=f"Parley: {plain_line(title, 200)}", text=text[:_TEXT])


def _counted(n: int, name: str) -> str:
    return f"{n} {name}" if n == 1 else f"{n} {name}s"
