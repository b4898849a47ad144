"""Tools told, called and answered within the text of messages, for endpoints that have no format of their own for them.

Models keep to formats loosely, so reading is lenient: a block may be cut off, hold several values, or stand under `json`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemas.dialog import Role
from schemas.episode import ToolCall
from tasks.language.chat_model import UNREADABLE, ChatRequest, Message, ToolSpec
from tasks.language.prompt import fill, load_prompt

_OPENING = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[ \t]*(?P<tag>tool_calls?|json)?[ \t]*\r?\n",
    re.IGNORECASE | re.MULTILINE,
)
_BETWEEN = re.compile(r"[\s,]*")
_CLOSING = re.compile(r"\s*(?:```|~~~)[ \t]*(?:\r?\n|\Z)")
_NAMES, _ARGUMENTS = ("name", "tool", "function"), ("arguments", "parameters", "args", "input")
_LENIENT = json.JSONDecoder(strict=False)
"""Takes line breaks within strings."""


def with_tools_as_text(request: ChatRequest) -> ChatRequest:
    """The same request without tools: its messages tell of them, and of calls and results so far."""
    told = fill(
        load_prompt("tasks.language", "tools_as_text"),
        tools="\n".join(map(_described, request.tools)),
    )
    first, *rest = request.messages
    if first.role is Role.SYSTEM:
        system = Message(Role.SYSTEM, f"{first.content}\n\n{told}")
    else:
        system, rest = Message(Role.SYSTEM, told), [first, *rest]
    return replace(request, messages=(system, *_as_text(rest)), tools=())


def _described(tool: ToolSpec) -> str:
    shown = {"name": tool.name, "description": tool.description, "arguments": dict(tool.parameters)}
    return json.dumps(shown, ensure_ascii=False)


def _as_text(messages: list[Message]) -> Iterator[Message]:
    """Results that follow one another are one message, and so is what the user says behind them: many chat templates want user
    and assistant in turn."""
    names: dict[str | None, str] = {}
    results: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            results.append(f"Result of {names.get(message.call_id, 'a tool')}:\n{message.content}")
            continue
        if results and message.role is Role.USER:
            message = replace(message, content="\n\n".join((*results, message.content)))
        elif results:
            yield Message(Role.USER, "\n\n".join(results))
        results = []
        names |= {call.call_id: call.name for call in message.calls}
        yield Message(message.role, _with_block(message)) if message.calls else message
    if results:
        yield Message(Role.USER, "\n\n".join(results))


def _with_block(message: Message) -> str:
    calls = ", ".join(
        f'{{"name": {json.dumps(c.name)}, "arguments": {_object_text(c.arguments)}}}'
        for c in message.calls
    )
    block = f"```tool_calls\n[{calls}]\n```"
    return f"{message.content}\n\n{block}" if message.content else block


def _object_text(arguments: str) -> str:
    try:
        json.loads(arguments)
    except ValueError:
        return json.dumps(arguments)
    return arguments


def calls_in(content: str, tools: tuple[ToolSpec, ...]) -> tuple[str, tuple[ToolCall, ...]]:
    """An answer's text without its calls, and the calls in order; ids are `call_0`, `call_1`, and so on.

    A block without the tag `tool_calls` counts only where it names a tool that was offered: an answer may show JSON.
    """
    known = {tool.name for tool in tools}
    text, at, found = "", 0, list[tuple[str, str]]()
    while (opening := _OPENING.search(content, at)) is not None:
        is_marked = (opening["tag"] or "").lower().startswith("tool_call")
        values, end = _values(content, opening.end())
        asked = [
            call for value in values for call in _calls(value) if is_marked or call[0] in known
        ]
        if is_marked and not asked:
            end = _end_of_block(content, opening.end())
            asked = [(UNREADABLE, content[opening.end() : end].strip("`~ \r\n"))]
        text += content[at : opening.start() if asked else opening.end()]
        at = end if asked else opening.end()
        found += asked
    said = text + content[at:]
    calls = (
        ToolCall(call_id=f"call_{n}", name=name, arguments=arguments)
        for n, (name, arguments) in enumerate(found)
    )
    return said.strip() if found else said, tuple(calls)


def _values(content: str, start: int) -> tuple[list[Any], int]:
    """All JSON values from here on, and the end of their block: strings may hold fences, so the values say where it ends."""
    values: list[Any] = []
    end = start
    while True:
        begin = _match_end(_BETWEEN, content, end)
        try:
            value, end = _LENIENT.raw_decode(content, begin)
        except (ValueError, RecursionError):
            return values, _match_end(_CLOSING, content, end)
        values.append(value)


def _match_end(pattern: re.Pattern[str], content: str, at: int) -> int:
    found = pattern.match(content, at)
    return found.end() if found else at


def _end_of_block(content: str, start: int) -> int:
    closing = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*(?:\r?\n|\Z)", re.MULTILINE).search(
        content, start
    )
    return closing.end() if closing else len(content)


def _calls(value: Any) -> Iterator[tuple[str, str]]:
    """(name, arguments as JSON text) of each call that a value holds."""
    if isinstance(value, list):
        for item in value:
            yield from _calls(item)
    elif isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        yield from _calls(value["tool_calls"])
    elif isinstance(value, dict):
        inner = value["function"] if isinstance(value.get("function"), dict) else value
        name = next((inner[key] for key in _NAMES if isinstance(inner.get(key), str)), None)
        given = next((inner[key] for key in _ARGUMENTS if key in inner), {})
        if name is not None:
            yield name, given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
