"""Detection of the reference program in a simulated user's messages.

A simulated user knows the reference and may describe it, but must not disclose its code. The
comparison is by syntax, so that other names, another layout, an enclosing class or a code fence
change nothing. All messages of a dialogue are compared together, since a user could disclose one
line in each round.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers.javascript import JavascriptLexer
from pygments.lexers.jvm import JavaLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Token

from tasks.benchmarks.talk2code.languages import Language, delivered_program, without_blocks

NAME, TEXT, CALL = "name", "text", "call("
"""Token of any identifier; of any string; of a parenthesis directly after an identifier, which does
not occur in prose."""
_LEXERS: Mapping[str, Callable[..., Lexer]] = {
    "python": PythonLexer,
    "java": JavaLexer,
    "javascript": JavascriptLexer,
}
_IMPORT = re.compile(
    r"^[ \t]*(?:import\b[^\n]*|from[ \t]+\S+[ \t]+import\b[^\n]*|package\b[^\n]*;"
    r"|(?:const|let|var)\b[^\n]*=[ \t]*require\([^\n]*)$",
    re.MULTILINE,
)
_CLASS = re.compile(
    r"^[ \t]*(?:(?:public|final|abstract|static|export|default)\s+)*class\s+\w+[^\n{:]*[{:]?",
    re.MULTILINE,
)
_SIGNATURES: Mapping[str, str] = {
    "python": r"\bdef\s+NAME\s*\(.*?\)\s*(?:->[^:\n]*)?:",
    "java": (
        r"(?:\b(?:public|private|protected|static|final)\s+)*[\w<>\[\], ]*\bNAME"
        r"\s*\([^;{}]*?\)[^;{}]*\{"
    ),
    "javascript": (
        r"\b(?:async\s+)?function\s*\*?\s*NAME\s*\([^{}]*?\)\s*\{"
        r"|\b(?:const|let|var)\s+NAME\s*=\s*(?:async\s*)?(?:function\b\s*\w*\s*)?"
        r"\([^)]*\)\s*(?:=>)?\s*\{?"
    ),
}
_WORD_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_COMMENT_MARKS = re.compile(
    r"\"{3}|'{3}|^[ \t]*(?:#+|//+|/\*+|\*+/?)(?=\s|$)|\*+/[ \t]*$", re.MULTILINE
)
"""Marks of docstrings and comments. HumanEval's statements are docstrings, and a lexer would take
code in one for a text."""
_ARGUMENTS = r"[\w\s,.:=<>\[\]'\"]*"
_IGNORED = {"python": frozenset(";"), "java": frozenset("{};"), "javascript": frozenset("{};")}
"""Punctuation of blocks, which is often optional and carries no information."""
_PROSE = frozenset(",.:()'\"`!?-")


@dataclass(frozen=True)
class Piece:
    """Normalised token with its line number."""

    text: str
    line: int

    @property
    def is_syntax(self) -> bool:
        """True for a token that does not occur in prose: an operator, a bracket or a call."""
        return self.text == CALL or not (
            self.text in _PROSE or self.text[0].isalnum() or self.text[0] == "_"
        )


def pieces(text: str, language: Language) -> tuple[Piece, ...]:
    """Return the tokens of a text with equal names and strings, without comments and layout."""
    return tuple(_pieces(text, language))


def body_of(program: str, language: Language, entry_point: str) -> str:
    """Return a program without imports, class lines and the signature of its function.

    Users may mention these.
    """
    code = _without_comments(program, language)
    return _CLASS.sub("", _IMPORT.sub("", _without_signature(code, language, entry_point)))


def prose_of(text: str, entry_point: str) -> str:
    """Return a message without apostrophes and without calls of the function.

    Users may mention such calls. Marks of docstrings and comments are removed, too, so that the
    text in them counts.
    """
    plain = _COMMENT_MARKS.sub(" ", _WORD_APOSTROPHE.sub("", text))
    return re.sub(rf"(?<![\w$]){re.escape(entry_point)}\({_ARGUMENTS}\)", " ", plain)


@cache
def _lexer(language: str) -> Lexer:
    """Return the lexer of a language, which compiles its rules when it is first made."""
    return _LEXERS[language](stripnl=False, ensurenl=False)


def _without_comments(program: str, language: Language) -> str:
    """Return a program without comments and docstrings, whose examples resemble a signature."""
    return "".join(
        value
        for kind, value in _lexer(language.name).get_tokens(program)
        if kind not in Comment and kind not in Literal.String.Doc
    )


def _without_signature(text: str, language: Language, entry_point: str) -> str:
    pattern = _SIGNATURES[language.name].replace(
        "NAME", rf"(?<![\w$.]){re.escape(entry_point)}(?![\w$])"
    )
    return re.sub(pattern, "", text, flags=re.DOTALL)


def _pieces(text: str, language: Language) -> Iterator[Piece]:
    line, follows_name, in_text = 0, False, False
    for kind, value in _lexer(language.name).get_tokens(text):
        if kind in Literal.String and kind not in Literal.String.Interpol:
            is_text, symbol = True, TEXT
        else:
            is_text, symbol = False, _symbol(kind, value.strip(), follows_name)
        if kind in Literal.String.Doc or kind in Literal.String.Affix:
            symbol = ""
        if symbol and not (is_text and in_text) and symbol not in _IGNORED[language.name]:
            yield Piece(symbol, line)
        in_text = is_text
        follows_name = kind in Name and not value.isspace()
        line += value.count("\n")


def _symbol(kind: Any, value: str, follows_name: bool) -> str:
    if not value or kind in Comment:
        return ""
    if value == "(" and follows_name:
        return CALL
    if kind in Number or kind in Keyword or kind in Operator.Word:
        return value
    if kind in Name or (kind in Token.Error and value.isidentifier()):
        return NAME
    return value


MOST_DISCLOSED = 1 / 3
"""Share of the reference's body at which a message is rejected."""
_SHORTEST = 4
"""Minimum tokens of a matching run: shorter runs, such as `x = y`, occur in many programs."""
_SHORTEST_IN_PROSE, _LEAST_SYNTAX = 5, 2
"""Minimum tokens of a run in prose, and how many of them must be syntax.

So "return True if it is, otherwise False" does not count as code.
"""
_INLINE = re.compile(r"`[^`\n]+`")
_FENCE = re.compile(r"^[ \t]*```[^\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class _Match:
    """Run of equal tokens in the reference's body and in one part of the messages."""

    length: int
    body_index: int
    """Index of the run's first token in the reference's body."""
    part: int
    """Index of the part of the messages."""
    token_index: int
    """Index of the run's first token in this part."""


@dataclass(frozen=True)
class _Part:
    """Tokens of a part of a message: prose, or inline code."""

    tokens: tuple[Piece, ...]
    is_code: bool

    def counts(self, match: _Match) -> bool:
        """Return True if a run of equal tokens is code.

        A run in inline code is code. A run in prose is code if it has enough syntax, or if it is a
        complete line with syntax.
        """
        run = self.tokens[match.token_index : match.token_index + match.length]
        if self.is_code:
            return True
        n_syntax = sum(piece.is_syntax for piece in run)
        if len(run) >= _SHORTEST_IN_PROSE and n_syntax >= _LEAST_SYNTAX:
            return True
        return self._is_whole_line(match) and (n_syntax > 0 or run[-1].text == ":")

    def _is_whole_line(self, match: _Match) -> bool:
        end = match.token_index + match.length
        begins = (
            match.token_index == 0
            or self.tokens[match.token_index - 1].line < self.tokens[match.token_index].line
        )
        return begins and (
            end == len(self.tokens) or self.tokens[end].line > self.tokens[end - 1].line
        )


@dataclass(frozen=True)
class HiddenCode:
    """Program that a user must not disclose."""

    reference: str
    language: Language
    entry_point: str
    statement: str = ""
    """Statement of the task. Code in it is not secret."""

    @cached_property
    def body(self) -> tuple[str, ...]:
        """Tokens of the reference's body."""
        body = pieces(body_of(self.reference, self.language, self.entry_point), self.language)
        return tuple(piece.text for piece in body or pieces(self.reference, self.language))

    def disclosed_share(self, messages: Sequence[str]) -> float:
        """Return the share of the body's secret tokens that the messages contain together.

        Returns:
            Ratio in [0, 1].
        """
        secret = len(self.body) - len(self._in_statement)
        return (
            len(self._covered(messages, self._in_statement) - self._in_statement) / secret
            if secret
            else 0.0
        )

    @cached_property
    def _in_statement(self) -> frozenset[int]:
        """Indices of the body's tokens that the statement contains."""
        return frozenset(self._covered((self.statement,), frozenset()))

    def _covered(self, messages: Sequence[str], before: frozenset[int]) -> set[int]:
        """Return the indices of the body's tokens that messages contain, joined with `before`."""
        parts = [part for text in messages for part in self._parts(text)]
        covered, used = set(before), set[tuple[int, int]]()
        while match := self._longest(parts, covered, used):
            covered.update(range(match.body_index, match.body_index + match.length))
            used.update((match.part, match.token_index + n) for n in range(match.length))
        return covered

    def fault(self, reply: str, earlier: Sequence[str] = ()) -> str | None:
        """Return the reason why a reply discloses the program; None if it does not.

        A reply discloses the program if it contains secret tokens and all messages together contain
        a third of the reference's body. So does a code block of at least two lines that defines the
        function, even if it is another program than the reference.
        """
        if (
            self.disclosed_share((reply,)) > 0
            and (share := self.disclosed_share((*earlier, reply))) >= MOST_DISCLOSED
        ):
            return f"{share:.0%} of the secret solution would be known then"
        block = delivered_program(reply, self.language, self.entry_point)
        if block is not None and sum(bool(line.strip()) for line in block.splitlines()) > 1:
            return "it holds a program"
        return None

    def without_code(self, reply: str, earlier: Sequence[str] = ()) -> str:
        """Return the reply without code blocks and lines of the reference.

        The result is empty if no text remains, or if the rest still discloses the program.
        """
        lines = without_blocks(reply).splitlines()
        lines = [line for line in lines if not self._is_code(line)]
        remaining = "\n".join(lines).strip()
        return "" if self.fault(remaining, earlier) else remaining

    def _is_code(self, line: str) -> bool:
        text = line.strip()
        is_signature = self.language.defines(text, self.entry_point) and text.endswith(
            (":", "{", "}", ")")
        )
        return (
            is_signature or self.disclosed_share((f"`{text}`",)) > 0 or text.startswith("return ")
        )

    def _parts(self, text: str) -> Iterator[_Part]:
        """Yield the inline code of a message, and the message as prose.

        The prose includes code blocks without their fences, since a program can come without a
        fence.
        """
        bare = prose_of(text, self.entry_point)
        for code in _INLINE.findall(bare):
            yield _Part(pieces(code.strip("`"), self.language), True)
        unfenced = _FENCE.sub("", bare)
        if self.language.kind != "javascript":  # backticks delimit templates there
            unfenced = _INLINE.sub(" ", unfenced)
        yield _Part(pieces(unfenced, self.language), False)

    def _longest(
        self, parts: Sequence[_Part], covered: set[int], used: set[tuple[int, int]]
    ) -> _Match | None:
        """Return the longest run of code that is not covered yet, the earliest of equal length."""
        matches = (
            match
            for match in self._matches(parts, covered, used)
            if parts[match.part].counts(match)
        )
        return max(
            matches,
            key=lambda match: (match.length, -match.body_index, -match.part, -match.token_index),
            default=None,
        )

    def _matches(
        self, parts: Sequence[_Part], covered: set[int], used: set[tuple[int, int]]
    ) -> Iterator[_Match]:
        for number, part in enumerate(parts):
            texts = [piece.text for piece in part.tokens]
            for token_index in range(len(texts) - _SHORTEST + 1):
                for body_index in self._starts.get(
                    tuple(texts[token_index : token_index + _SHORTEST]), ()
                ):
                    length = 0
                    while (
                        body_index + length < len(self.body)
                        and token_index + length < len(texts)
                        and self.body[body_index + length] == texts[token_index + length]
                        and body_index + length not in covered
                        and (number, token_index + length) not in used
                    ):
                        length += 1
                    if length >= _SHORTEST:
                        yield _Match(length, body_index, number, token_index)

    @cached_property
    def _starts(self) -> dict[tuple[str, ...], list[int]]:
        """Run of the minimum length -> its indices in the body."""
        starts = defaultdict[tuple[str, ...], list[int]](list)
        for body_index in range(len(self.body) - _SHORTEST + 1):
            starts[self.body[body_index : body_index + _SHORTEST]].append(body_index)
        return dict(starts)
