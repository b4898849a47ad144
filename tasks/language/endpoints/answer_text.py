"""Contents of an answer's text: reasoning, and tool calls where an endpoint has no tool format.

Models follow formats loosely, so the tool calls' parsing is lenient: a block may be cut off,
contain several values, or be tagged `json`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from schemas.dialog import Role
from schemas.episode import ToolCall
from schemas.errors import UnknownName
from tasks.language.chat_model import UNREADABLE, ChatRequest, Message, ToolSpec
from tasks.language.prompt import fill, load_prompt

AUTO, NONE, CHANNEL = "auto", "none", "channel"
_REMEDY = (
    "Write auto, none, or names separated by commas: --reasoning-tags think,mistral"
    " (`reasoning_tags` in a file)"
)
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)+")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_QUOTES = frozenset("'\"`")
_CHANNEL_MARK = re.compile(r"<\|channel\|>|^\s*analysis(?=.*?assistantfinal)", re.DOTALL)
_FINAL = re.compile(r"<\|channel\|>\s*final[^<]*<\|message\|>|assistantfinal", re.DOTALL)
_END_OF_FINAL = re.compile(r"<\|(?:return|end|start|call)\|>")
_MARK = re.compile(
    r"<\|(?:channel|start)\|>\s*\w*|<\|(?:message|end|return|call|constrain)\|>|^\s*analysis"
)


@dataclass(frozen=True, slots=True)
class Thought:
    """Text of an answer without its reasoning, and the reasoning."""

    answer: str
    reasoning: str = ""
    is_cut_off: bool = False
    """True if reasoning was never closed: the tokens ran out before the answer."""


@cache
def known_tags() -> Mapping[str, tuple[str, str]]:
    """Return (begin mark, end mark) by tag name.

    The file is read at the first answer with a mark.
    """
    import yaml

    text = (
        files("tasks.language.endpoints")
        .joinpath("reasoning_tags.yaml")
        .read_text(encoding="utf-8")
    )
    return {name: (begin, end) for name, (begin, end) in yaml.safe_load(text).items()}


@cache
def tag_names(choice: str) -> tuple[str, ...]:
    """Return the names of reasoning tags for `auto`, `none` or a list separated by commas.

    Raises:
        UnknownName: No tag has this name.
    """
    if choice == NONE:
        return ()
    known_names = (*known_tags(), CHANNEL)
    if choice == AUTO:
        return known_names
    names = tuple(name.strip() for name in choice.split(","))
    for name in names:
        if name not in known_names:
            raise UnknownName("reasoning tag", name, (AUTO, NONE, *known_names), _REMEDY)
    return names


def without_reasoning(content: str, choice: str = AUTO) -> Thought:
    """Separate an answer's reasoning from its text.

    Reasoning is the text between two marks, the text before an end mark without a beginning, and
    all channels but the final one. Marks in quotes and in a fenced block of the answer are text.
    """
    if not any(sign in content for sign in ("<", "[", "◁", "assistantfinal")):
        return Thought(content)
    names = tag_names(choice)
    if CHANNEL in names and _CHANNEL_MARK.search(content):
        return _final_channel(content)
    marks_of = known_tags()
    tags = [
        marks_of[name]
        for name in names
        if name in marks_of and any(mark in content for mark in marks_of[name])
    ]
    return _without_blocks(content, tags) if tags else Thought(content)


def _final_channel(content: str) -> Thought:
    final = _FINAL.search(content)
    if final is None:
        return Thought("", _MARK.sub("", content).strip(), is_cut_off=True)
    answer = content[final.end() :]
    end = _END_OF_FINAL.search(answer)
    return Thought(
        answer[: end.start()] if end else answer, _MARK.sub("", content[: final.start()]).strip()
    )


def _without_blocks(content: str, tags: Sequence[tuple[str, str]]) -> Thought:
    text_before, thoughts, rest = "", list[str](), content
    while (
        beginning := _next_beginning(rest, [begin for begin, _ in tags], text_before)
    ) is not None:
        at, begin = beginning
        end_mark = dict(tags)[begin]
        text_before, rest = text_before + rest[:at], rest[at + len(begin) :]
        ends = _places(rest, end_mark)
        if not ends:
            return Thought("", "\n\n".join((*thoughts, rest.strip())), is_cut_off=True)
        thoughts.append(rest[: ends[0]].strip())
        rest = rest[ends[0] + len(end_mark) :]
        rest = rest if text_before.strip() else _after_blank_lines(rest)
    answer = text_before + rest if text_before.strip() else rest
    lone = [(at, end) for begin, end in tags if begin not in answer for at in _places(answer, end)]
    if lone:
        at, mark = max(lone)
        thoughts.append(answer[:at].strip())
        answer = _after_blank_lines(answer[at + len(mark) :])
    return Thought(answer, "\n\n".join(filter(None, thoughts)))


def _next_beginning(text: str, marks: Sequence[str], before: str) -> tuple[int, str] | None:
    """Return the position and the text of the first mark that is not in a fenced block."""
    positions = sorted((at, mark) for mark in marks for at in _places(text, mark))
    return next(
        ((at, mark) for at, mark in positions if len(_FENCE.findall(before + text[:at])) % 2 == 0),
        None,
    )


def _places(text: str, mark: str) -> list[int]:
    """Return the positions of a mark outside of quotes."""
    places = (match.start() for match in re.finditer(re.escape(mark), text))
    return [
        at
        for at in places
        if not (
            text[at - 1 : at] in _QUOTES and text[at + len(mark) : at + len(mark) + 1] in _QUOTES
        )
    ]


def _after_blank_lines(text: str) -> str:
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text


_OPENING = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[ \t]*(?P<tag>tool_calls?|json)?[ \t]*\r?\n",
    re.IGNORECASE | re.MULTILINE,
)
_BETWEEN = re.compile(r"[\s,]*")
_CLOSING = re.compile(r"\s*(?:```|~~~)[ \t]*(?:\r?\n|\Z)")
_NAMES, _ARGUMENTS = ("name", "tool", "function"), ("arguments", "parameters", "args", "input")
_LENIENT = json.JSONDecoder(strict=False)
"""Decoder that accepts line breaks within strings."""


def with_tools_as_text(request: ChatRequest) -> ChatRequest:
    """Return the request without tools.

    Its messages describe the tools, and the calls and results so far.
    """
    description = fill(
        load_prompt("tasks.language", "tools_as_text"),
        tools="\n".join(map(_described, request.tools)),
    )
    first, *rest = request.messages
    if first.role is Role.SYSTEM:
        system = Message(Role.SYSTEM, f"{first.content}\n\n{description}")
    else:
        system, rest = Message(Role.SYSTEM, description), [first, *rest]
    return replace(request, messages=(system, *_as_text(rest)), tools=())


def _described(tool: ToolSpec) -> str:
    shown = {"name": tool.name, "description": tool.description, "arguments": dict(tool.parameters)}
    return json.dumps(shown, ensure_ascii=False)


def _as_text(messages: list[Message]) -> Iterator[Message]:
    """Yield the messages with calls and results as text.

    Consecutive results become one message together with the following user text, since many chat
    templates require user and assistant to alternate.
    """
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
    """Return an answer's text without its calls, and the calls in order.

    Their ids are `call_0`, `call_1`, and so on. A block without the tag `tool_calls` counts only if
    it names an offered tool, since an answer may show JSON.
    """
    names = {tool.name for tool in tools}
    text, at, calls_found = "", 0, list[tuple[str, str]]()
    while (opening := _OPENING.search(content, at)) is not None:
        is_marked = (opening["tag"] or "").lower().startswith("tool_call")
        values, end = _values(content, opening.end())
        calls_of_block = [
            call for value in values for call in _calls(value) if is_marked or call[0] in names
        ]
        if is_marked and not calls_of_block:
            end = _end_of_block(content, opening.end())
            calls_of_block = [(UNREADABLE, content[opening.end() : end].strip("`~ \r\n"))]
        text += content[at : opening.start() if calls_of_block else opening.end()]
        at = end if calls_of_block else opening.end()
        calls_found += calls_of_block
    remaining_text = text + content[at:]
    calls = (
        ToolCall(call_id=f"call_{n}", name=name, arguments=arguments)
        for n, (name, arguments) in enumerate(calls_found)
    )
    return remaining_text.strip() if calls_found else remaining_text, tuple(calls)


def _values(content: str, start: int) -> tuple[list[Any], int]:
    """Return all JSON values from position `start` on, and the end of their block.

    Strings may contain fences, so the values determine the end.
    """
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
    match = pattern.match(content, at)
    return match.end() if match else at


def _end_of_block(content: str, start: int) -> int:
    closing = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*(?:\r?\n|\Z)", re.MULTILINE).search(
        content, start
    )
    return closing.end() if closing else len(content)


def _calls(value: Any) -> Iterator[tuple[str, str]]:
    """Yield (name, arguments as JSON text) of each call in a value."""
    if isinstance(value, list):
        for item in value:
            yield from _calls(item)
    elif isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        yield from _calls(value["tool_calls"])
    elif isinstance(value, dict):
        inner = value["function"] if isinstance(value.get("function"), dict) else value
        name = next((inner[key] for key in _NAMES if isinstance(inner.get(key), str)), None)
        arguments = next((inner[key] for key in _ARGUMENTS if key in inner), {})
        if name is not None:
            yield (
                name,
                arguments
                if isinstance(arguments, str)
                else json.dumps(arguments, ensure_ascii=False),
            )
