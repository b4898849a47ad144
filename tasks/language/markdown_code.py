"""Program in a chat answer, found with a Markdown parser (CommonMark)."""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_FENCED_PYTHON = re.compile(r"```python\r?\n(.*?)```", re.DOTALL)
_DOCSTRING_AFTER_FOUR_SPACES = re.compile(r' {4}"""\r?\n.*?"""', re.DOTALL)


def first_python_block(answer: str) -> str:
    """Return the first fenced block tagged `python`, or else the whole answer.

    This is CodeIF-Bench's rule.
    """
    match = _FENCED_PYTHON.search(answer)
    return match.group(1) if match else answer


def upstream_v0_cleanup(code: str) -> str:
    """Return the code with the deletions behind CodeIF-Bench's published verdicts.

    Delete each text that opens with triple quotes after four spaces at a line's end, up to the next
    triple quotes, and then all blank lines.
    """
    without_docstrings = _DOCSTRING_AFTER_FOUR_SPACES.sub("", code)
    return "\n".join(line for line in without_docstrings.splitlines() if line.strip())


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
    """Fenced code block."""

    tag: str
    """Language in lower case, without a version: `python` for `Python3.11` and `{.python}`.

    May be empty.
    """
    code: str


@dataclass(frozen=True, slots=True)
class ExtractedCode:
    """Program that was found in an answer."""

    code: str
    is_readable: bool = True
    """False if the answer has no readable code block and is not a program as a whole."""


def fenced_blocks(answer: str) -> tuple[Block, ...]:
    """Return the fenced blocks of a Markdown text in order.

    An unclosed block ends with its container.
    """
    tokens = _parser().parse(answer)
    return tuple(
        Block(_tag(token.info), token.content) for token in tokens if token.type == "fence"
    )


def flat_blocks(answer: str) -> tuple[Block, ...]:
    """Return the blocks between fence-like lines, with any indentation of fences and code."""
    tokens = _parser(is_flat=True).parse(_FENCE_INDENT.sub("", answer))
    return tuple(
        Block(_tag(token.info), dedent(token.content)) for token in tokens if token.type == "fence"
    )


def markdown_code(
    answer: str,
    tags: Collection[str],
    defines: Sequence[Callable[[str], bool]],
    is_program: Callable[[str], bool],
) -> ExtractedCode:
    """Return the last block that defines the entry point, the longest block, or the whole answer.

    Args:
        answer: Text of the answer.
        tags: Tags of the language. Blocks with one of them or without a tag come before all others.
        defines: One test per name that the program must define. Empty if no name is known.
        is_program: Returns True if a text without fences is a program.
    """
    code = delivered_code(answer, tags, defines) if defines else None
    if code is not None:
        return ExtractedCode(code)
    blocks = _written(fenced_blocks(answer)) if _FENCE.search(answer) else []
    whole = _FENCE_LINE.sub("", answer) if len(blocks) == 0 else answer
    for candidates in ([b for b in blocks if b.tag in tags], [b for b in blocks if not b.tag]):
        if candidates:
            return ExtractedCode(_longest(candidates))
    if is_program(whole) or not answer.strip():
        return ExtractedCode(whole)
    return ExtractedCode(_longest(blocks) if blocks else whole, is_readable=False)


def delivered_code(
    answer: str, tags: Collection[str], defines: Sequence[Callable[[str], bool]]
) -> str | None:
    """Return the last block that defines all names, else the last that defines any, else None.

    Text before the first fence counts as a block if nothing else defines a name: an answer may
    continue a block that its prompt has opened.
    """
    first = _FENCE.search(answer)
    if first is None:
        return None
    for blocks_of in (fenced_blocks, flat_blocks, lambda text: (Block("", text[: first.start()]),)):
        written = _written(blocks_of(answer))
        for candidates in ([b for b in written if not b.tag or b.tag in tags], written):
            for enough in (all, any):
                defining = [b.code for b in candidates if enough(test(b.code) for test in defines)]
                if defining:
                    return defining[-1]
    return None


def python_code(answer: str, names: Iterable[str] = ()) -> ExtractedCode:
    """Return the Python program of an answer.

    Args:
        answer: Text of the answer.
        names: Functions and classes that the program must define, if they are known.
    """
    defines = [_python_definition(name) for name in names]
    return markdown_code(
        answer,
        PYTHON_TAGS,
        defines,
        lambda text: is_python(text) and all(test(text) for test in defines),
    )


def paper_code(answer: str) -> ExtractedCode:
    """Return the program by CodeIF-Bench's rule.

    This is the first block tagged `python`, or else the whole answer.
    """
    code = first_python_block(answer)
    return ExtractedCode(
        code, is_readable=code is not answer or not answer.strip() or is_python(answer)
    )


def is_python(text: str) -> bool:
    """Return True if a text parses as Python."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


@lru_cache(maxsize=1024)
def entry_points(reference: str, tests: Sequence[str]) -> tuple[str, ...]:
    """Return the functions and classes of a reference that its tests name, or its first one.

    Args:
        reference: Reference code.
        tests: Tests, as a tuple.
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
    """Return the longest block, or the last one of several longest."""
    return max(reversed(blocks), key=lambda block: len(block.code)).code


def _tag(info: str) -> str:
    """Return the language of an info string: `python` for `Python3` and `{.python .numbered}`."""
    word = _TAG.search(info)
    tag = word[0].lower().lstrip(".") if word else ""
    return tag if tag in PYTHON_TAGS else _VERSION.sub("", tag)


@lru_cache(maxsize=2)
def _parser(*, is_flat: bool = False) -> "MarkdownIt":
    """Return a parser of blocks only, or of fences alone.

    HTML is text, so that a fence right after `<details>` is a fence.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    parser.core.ruler.enableOnly(["normalize", "block"])
    if is_flat:
        parser.block.ruler.enableOnly(["fence", "paragraph"])
    return parser
