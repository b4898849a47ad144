"""The merged form of messages: no system role, and no two messages of one role in a row, for chat templates that refuse them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MADE_USER = ("system", "developer")
_JOINED = "\n\n"


def merged(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Join system texts to the user message that follows them, and messages of one role in a row.

    An empty answer of the model is left out, so that what follows it joins what came before. Tool calls and their results stay as
    they are: each result names its call.
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
    """Return whether the merged form of the messages is the messages themselves."""
    return merged(messages) == list(messages)
