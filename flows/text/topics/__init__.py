"""How-to pages of `parley help TOPIC`, one Markdown file for each task.

The documentation site shows the same files.
"""

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
    """Return a topic's page, or the titles of all pages if `topic` is None.

    Raises:
        UnknownName: no page has this name; the error lists all names.
    """
    if topic is None:
        width = max(map(len, topics()))
        return "\n".join(
            f"parley help {name:<{width}}  {_page(name).splitlines()[0].removeprefix('# ')}"
            for name in topics()
        )
    if topic not in topics():
        raise UnknownName("topic", topic, topics(), "`parley COMMAND --help` explains a command")
    return _LINK.sub(_terminal_link, _page(topic)).strip()


def _terminal_link(link: re.Match[str]) -> str:
    """Return a Markdown link as text for a terminal: the page's command, or its path."""
    text, target = link.groups()
    if "://" in target:
        return f"{text} ({target})"
    path = normpath(f"{FOLDER}/{target.partition('#')[0]}")
    name = basename(path).removesuffix(".md")
    if path == f"{FOLDER}/{name}.md":
        return f"{text} (`parley help {name}`)"
    return text if text == f"`{path}`" else f"{text} ({path})"


def _page(topic: str) -> str:
    return (files("flows.text.topics") / f"{topic}.md").read_text(encoding="utf-8")
