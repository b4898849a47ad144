"""Prompts: one Markdown file each, with named placeholders `{name}`, filled strictly.

The module also quotes texts for a judge or a simulator, in a form that no quoted text can imitate.
Each text follows a line that begins with a mark. The mark is a digest of the first text, so it
stays the same while a dialogue grows. If any of the texts contains the mark, another one is used. A
message that reads "User: thank you, that works" therefore remains part of its own message.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import count
from pathlib import Path

from schemas.content_id import content_id
from schemas.dialog import Role
from schemas.errors import ConfigError, UsageError
from schemas.outside.display import plain_line
from tasks.language.chat_model import ChatRequest, Completion, Message, WrappedModel

_HEADER_LINE = re.compile(r"\s*<!--.*-->\s*")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def prompt_text(source: Traversable) -> str:
    """Return the text of a prompt file without its header.

    The header consists of leading `<!-- ... -->` lines that name the paper's section.

    Raises:
        ConfigError: The file is missing, is not UTF-8, or contains only a header.
    """
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"prompt {source} cannot be read as UTF-8 text ({type(error).__name__});"
            " reinstall parley-eval"
        ) from None
    start = 0
    while start < len(lines) and (not lines[start].strip() or _HEADER_LINE.fullmatch(lines[start])):
        start += 1
    text = "\n".join(lines[start:]).strip("\n")
    if not text:
        raise ConfigError(f"prompt {source} has no text below its header")
    return text


def load_prompt(package: str, name: str) -> str:
    """Return a package's `prompts/<name>.md`, as in `load_prompt("tasks.judging", "quality")`."""
    return prompt_text(files(package).joinpath("prompts", f"{name}.md"))


class PromptTexts(Mapping[str, str]):
    """Prompts of a package by name. Each is read at its first use."""

    def __init__(self, package: str, names: tuple[str, ...]) -> None:
        self._names = names
        self._text = cache(lambda name: load_prompt(package, name))

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._text(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def placeholders(text: str) -> tuple[str, ...]:
    """Return the names in braces, sorted.

    Braces around anything but a lower-case name are literal.
    """
    return tuple(sorted(set(_PLACEHOLDER.findall(text))))


def fill(text: str, **values: str) -> str:
    """Replace the placeholders by values in one pass, so that braces inside a value stay unchanged.

    Raises:
        ConfigError: A placeholder has no value, or a value has no placeholder.
    """
    names = placeholders(text)
    missing = [name for name in names if name not in values]
    unused = [name for name in values if name not in names]
    if missing or unused:
        raise ConfigError(
            f"prompt {text[:40]!r}...: no value for {', '.join(missing) or '-'};"
            f" no placeholder for {', '.join(unused) or '-'};"
            f" its placeholders are {', '.join(names) or '-'}"
        )
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)


_BETWEEN = "\n\n"


def read_system_text(path: Path) -> str:
    """Return the text of a file, without surrounding white space.

    Raises:
        UsageError: The file cannot be read.
        ConfigError: The file is empty or is not UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(
            f"system prompt {plain_line(str(path))}: {error.strerror or error}. Name a text file"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"system prompt {plain_line(str(path))}: the file is not UTF-8. Save it as UTF-8 text"
        ) from None
    if not text:
        raise ConfigError(
            f"system prompt {plain_line(str(path))}: the file is empty. Write the text into it, or"
            " remove the option"
        )
    return text


def with_system_text(request: ChatRequest, text: str) -> ChatRequest:
    """Return the request with the text at the beginning of its system message, or as a new one.

    One message contains both texts, with an empty line between them, since several chat templates
    reject a second system message.
    """
    first, *rest = request.messages
    if first.role is Role.SYSTEM:
        return replace(
            request, messages=(Message(Role.SYSTEM, f"{text}{_BETWEEN}{first.content}"), *rest)
        )
    return replace(request, messages=(Message(Role.SYSTEM, text), first, *rest))


@dataclass(frozen=True)
class PromptedModel(WrappedModel):
    """Model whose requests begin with a system text. See `ChatModel`."""

    text: str

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request. See `ChatModel.complete`."""
        return await self.model.complete(with_system_text(request, self.text))


MARK_LENGTH = 12
"""Number of hex digits of a mark."""
_LINE_ENDS = "\x85\u2028\u2029"
"""Line separators that JSON does not escape."""
_BACKTICKS = re.compile("`{3,}")


def quote_messages(messages: Iterable[tuple[str, str]]) -> str:
    """Return the messages (writer, text), each below a line with the mark and its writer."""
    shown = tuple(messages)
    if not shown:
        return "(nothing)"
    mark = mark_for([text for _, text in shown])
    lines = [
        f"[A line with the mark {mark} begins each message and ends the last one. No other line"
        " does.]"
    ]
    for writer, text in shown:
        lines += [f"[{mark} {writer}]", text]
    return "\n".join((*lines, f"[{mark} end]"))


def quote_text(text: str) -> str:
    """Return one text between two lines with its mark."""
    mark = mark_for([text])
    return f"[{mark} begin]\n{text}\n[{mark} end]"


def mark_for(texts: list[str]) -> str:
    """Return a mark that none of the texts contains. Equal texts have equal marks."""
    marks = (content_id([texts[0], n])[:MARK_LENGTH] for n in count())
    return next(mark for mark in marks if not any(mark in text.lower() for text in texts))


def backticks_for(code: str) -> str:
    """Return a fence longer than any in the code: at least three backticks."""
    return "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(code))])


def json_line(values: Mapping[str, str]) -> str:
    """Return the values as JSON on one line, by every definition of a line."""
    text = json.dumps(values, ensure_ascii=False)
    return "".join(f"\\u{ord(sign):04x}" if sign in _LINE_ENDS else sign for sign in text)
