"""Separation of reasoning from the text of an answer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from schemas.errors import UnknownName

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
