"""Tokens of programs and messages for comparison by syntax, without names, layout and strings."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers.javascript import JavascriptLexer
from pygments.lexers.jvm import JavaLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Token

from tasks.benchmarks.talk2code.languages import Language

NAME, TEXT, CALL = "name", "text", "call("
"""Token of any identifier; of any string; of a parenthesis directly after an identifier, which does
not occur in prose."""
_LEXERS: Mapping[str, Lexer] = {
    name: lexer(stripnl=False, ensurenl=False)
    for name, lexer in (
        ("python", PythonLexer),
        ("java", JavaLexer),
        ("javascript", JavascriptLexer),
    )
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
    return _CLASS.sub("", _IMPORT.sub("", _without_signature(program, language, entry_point)))


def prose_of(text: str, entry_point: str) -> str:
    """Return a message without calls of the function, which users may mention, and apostrophes."""
    return re.sub(
        rf"(?<![\w$]){re.escape(entry_point)}\({_ARGUMENTS}\)", " ", _WORD_APOSTROPHE.sub("", text)
    )


def _without_signature(text: str, language: Language, entry_point: str) -> str:
    pattern = _SIGNATURES[language.name].replace(
        "NAME", rf"(?<![\w$.]){re.escape(entry_point)}(?![\w$])"
    )
    return re.sub(pattern, "", text, flags=re.DOTALL)


def _pieces(text: str, language: Language) -> Iterator[Piece]:
    line, follows_name, in_text = 0, False, False
    for kind, value in _LEXERS[language.name].get_tokens(text):
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
