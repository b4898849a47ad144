"""The pages of `parley help TOPIC`."""

from importlib.resources import files

from schemas.errors import UnknownName

TOPICS = ("models", "settings", "resume", "withheld", "costs")


def topic_text(topic: str | None) -> str:
    """A topic's page; without a topic the first line of each.

    Raises:
        UnknownName: lists the topics.
    """
    if topic is None:
        return "\n".join(f"parley help {name:<9} {_page(name).splitlines()[0].removeprefix('# ')}" for name in TOPICS)
    if topic not in TOPICS:
        raise UnknownName("topic", topic, TOPICS, "`parley COMMAND --help` explains a command")
    return _page(topic).strip()


def _page(topic: str) -> str:
    return (files("flows.text.topics") / f"{topic}.md").read_text(encoding="utf-8")
