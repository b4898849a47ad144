"""How-to pages of `parley help TOPIC`, one Markdown file a task; the documentation shows the same files."""

import re
from functools import cache
from importlib.resources import files
from posixpath import basename, normpath

from schemas.errors import UnknownName

FOLDER = "flows/text/topics"
_LINK = re.compile(r"\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^)\s]+)\)")


@cache
def topics() -> tuple[str, ...]:
    """Return the names of all pages, sorted."""
    return tuple(
        sorted(
            page.name.removesuffix(".md")
            for page in files("flows.text.topics").iterdir()
            if page.name.endswith(".md")
        )
    )


def topic_text(topic: str | None) -> str:
    """Return a topic's page; without a topic the title of each.

    Raises:
        UnknownName: lists the topics.
    """
    if topic is None:
        width = max(map(len, topics()))
        return "\n".join(
            f"parley help {name:<{width}}  {_page(name).splitlines()[0].removeprefix('# ')}"
            for name in topics()
        )
    if topic not in topics():
        raise UnknownName("topic", topic, topics(), "`parley COMMAND --help` explains a command")
    return _LINK.sub(_typed, _page(topic)).strip()


def _typed(link: re.Match[str]) -> str:
    """Replace a link by what a terminal can show: the command that prints the page, or the place."""
    text, target = link.groups()
    if "://" in target:
        return f"{text} ({target})"
    place = normpath(f"{FOLDER}/{target.partition('#')[0]}")
    name = basename(place).removesuffix(".md")
    if place == f"{FOLDER}/{name}.md":
        return f"{text} (`parley help {name}`)"
    return text if text == f"`{place}`" else f"{text} ({place})"


def _page(topic: str) -> str:
    return (files("flows.text.topics") / f"{topic}.md").read_text(encoding="utf-8")
