"""Merged form of messages, for chat templates with strict rules.

It has no system role, and no two messages of one role in a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MADE_USER = ("system", "developer")
_JOINED = "\n\n"


def merged(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Join system texts to the following user message, and consecutive messages of one role.

    An empty answer of the model is omitted, so that the messages around it are joined. Tool calls
    and their results stay unchanged, since each result names its call.
    """
    joined: list[dict[str, Any]] = []
    for message in messages:
        role = "user" if message["role"] in _MADE_USER else message["role"]
        if role == "assistant" and not message["content"].strip() and not message.get("tool_calls"):
            continue
        last = joined[-1] if joined else None
        if (
            last is not None
            and last["role"] == role
            and role != "tool"
            and not {*last, *message} & {"tool_calls"}
        ):
            last["content"] = _JOINED.join(
                text for text in (last["content"], message["content"]) if text
            )
        else:
            joined.append({**message, "role": role})
    return joined


def is_merged(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the messages are in the merged form already."""
    return merged(messages) == list(messages)
