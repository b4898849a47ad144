"""The program in a chat answer, found by a Markdown parser (CommonMark)."""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import dedent
from typing import NamedTuple

from markdown_it import MarkdownIt

from tasks.language.code_block import first_python_block

PYTHON_TAGS = frozenset(
    (
        "python",
        "python2",
        "python3",
        "py",
        "py2",
        "py3",
        "py3k",
        "ipython",
        "ipython3",
        "cpython",
        "sage",
    )
)
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_FENCE_INDENT = re.compile(r"^[ \t>]+(?=```|~~~)", re.MULTILINE)
_FENCE_LINE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*(?:\n|\Z)", re.MULTILINE)
_TAG = re.compile(r"[^\s,:;{}=]+")
_VERSION = re.compile(r"(?<=[a-z])[\d.]+$")
_TOP_LEVEL = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)


class Block(NamedTuple):
    """A fenced code block."""

    tag: str
    """Its language in lower case, without a version: `python` for `Python3.11` and `{.python}`; may be empty."""
    code: str


@dataclass(frozen=True, slots=True)
class ExtractedCode:
    """The program of an answer."""

    code: str
    is_readable: bool = True
    """False where the answer has no code block that is read, and is no program as a whole."""


def fenced_blocks(answer: str) -> tuple[Block, ...]:
    """Return the fenced blocks of a Markdown text in their order; a block that nothing closes ends with its container."""
    tokens = _parser().parse(answer)
    return tuple(
        Block(_tag(token.info), token.content) for token in tokens if token.type == "fence"
    )


def flat_blocks(answer: str) -> tuple[Block, ...]:
    """Return the blocks between lines that look like fences, however these lines and the code are indented."""
    tokens = _flat_parser().parse(_FENCE_INDENT.sub("", answer))
    return tuple(
        Block(_tag(token.info), dedent(token.content)) for token in tokens if token.type == "fence"
    )


def markdown_code(
    answer: str,
    tags: Collection[str],
    defines: Sequence[Callable[[str], bool]],
    is_program: Callable[[str], bool],
) -> ExtractedCode:
    """Return the last block that defines the entry point, else the longest block, else the whole answer.

    Args:
        tags: tags of the language. Blocks with one of them or without a tag come before all others.
        defines: one test for each name that the program must define; empty where no name is known.
        is_program: tells whether a text without fences is a program.
    """
    code = delivered_code(answer, tags, defines) if defines else None
    if code is not None:
        return ExtractedCode(code)
    blocks = _written(fenced_blocks(answer)) if _FENCE.search(answer) else []
    whole = _FENCE_LINE.sub("", answer) if len(blocks) == 0 else answer
    for chosen in ([b for b in blocks if b.tag in tags], [b for b in blocks if not b.tag]):
        if chosen:
            return ExtractedCode(_longest(chosen))
    if is_program(whole) or not answer.strip():
        return ExtractedCode(whole)
    return ExtractedCode(_longest(blocks) if blocks else whole, is_readable=False)


def delivered_code(
    answer: str, tags: Collection[str], defines: Sequence[Callable[[str], bool]]
) -> str | None:
    """Return the last block that defines all names, else the last that defines any; None where no block defines one.

    Text before a first fence counts as a block if nothing else defines a name: an answer may go on with a block that its prompt
    has opened.
    """
    first = _FENCE.search(answer)
    if first is None:
        return None
    for blocks in (
        fenced_blocks(answer),
        flat_blocks(answer),
        (Block("", answer[: first.start()]),),
    ):
        written = _written(blocks)
        for chosen in ([b for b in written if not b.tag or b.tag in tags], written):
            for enough in (all, any):
                defining = [b.code for b in chosen if enough(test(b.code) for test in defines)]
                if defining:
                    return defining[-1]
    return None


def python_code(answer: str, names: Iterable[str] = ()) -> ExtractedCode:
    """Return the Python program of an answer.

    Args:
        names: functions and classes that it must define, where they are known.
    """
    defines = [_python_definition(name) for name in names]
    return markdown_code(
        answer,
        PYTHON_TAGS,
        defines,
        lambda text: is_python(text) and all(test(text) for test in defines),
    )


def paper_code(answer: str) -> ExtractedCode:
    """Return the program by CodeIF-Bench's rule: the first block tagged `python`, else the whole answer."""
    code = first_python_block(answer)
    return ExtractedCode(
        code, is_readable=code is not answer or not answer.strip() or is_python(answer)
    )


def is_python(text: str) -> bool:
    """Tell whether a text is Python as it stands."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


@lru_cache(maxsize=1024)
def entry_points(reference: str, tests: Sequence[str]) -> tuple[str, ...]:
    """Return the functions and classes of a reference that its tests name; where they name none, the reference's first one.

    Args:
        tests: a tuple.
    """
    defined = tuple(dict.fromkeys(_TOP_LEVEL.findall(dedent(reference))))
    words = {word for test in tests for word in re.findall(r"\w+", test)}
    return tuple(name for name in defined if name in words) or defined[:1]


def _python_definition(name: str) -> Callable[[str], bool]:
    pattern = re.compile(
        rf"\b(?:def|class)[ \t]+{name}\b|^[ \t]*{name}[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE
    )
    return lambda code: pattern.search(code) is not None


def _written(blocks: Iterable[Block]) -> list[Block]:
    return [block for block in blocks if block.code.strip()]


def _longest(blocks: Sequence[Block]) -> str:
    """The longest block, of equals the last."""
    return max(reversed(blocks), key=lambda block: len(block.code)).code


def _tag(info: str) -> str:
    """The language of an info string: `python` for `Python3`, `{.python .numbered}` and `python:main.py`."""
    word = _TAG.search(info)
    tag = word[0].lower().lstrip(".") if word else ""
    return tag if tag in PYTHON_TAGS else _VERSION.sub("", tag)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """Blocks alone. HTML is text, so that a fence right after `<details>` is a fence."""
    parser = MarkdownIt("commonmark", {"html": False})
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


@lru_cache(maxsize=1)
def _flat_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.enableOnly(["fence", "paragraph"])
    return parser
