"""The program that a simulated user must not hand over, and the share of it that the user's messages hold.

A simulated user knows the reference and may say what it does. Syntax is compared, not lines: other names, another layout, a class
around it or a fence change nothing. All messages of a dialogue count together, so one line a round adds up.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tasks.benchmarks.talk2code.languages import Language, delivered, without_blocks
from tasks.benchmarks.talk2code.user.code_tokens import Piece, body_of, pieces, talk_of

MOST_DISCLOSED = 1 / 3
"""Share of the reference's body from which on a user is asked for another wording."""
_SHORTEST = 4
"""Tokens of the shortest run that counts: `x = y` stands in any program of three lines."""
_SHORTEST_IN_PROSE, _LEAST_SYNTAX = 5, 2
"""In prose a run is longer, and has two tokens that no prose has: so "return True if it is, otherwise False" is none."""
_INLINE = re.compile(r"`[^`\n]+`")
_FENCE = re.compile(r"^[ \t]*```[^\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class _Match:
    """Equal tokens: places in the body, and in one part of the talk."""

    length: int
    at: int
    part: int
    place: int


@dataclass(frozen=True)
class _Part:
    """Tokens of a message: prose, or what stands in code marks."""

    tokens: tuple[Piece, ...]
    is_code: bool

    def counts(self, match: _Match) -> bool:
        """Whether a run of equal tokens tells code. It does where it is a whole line with syntax, or has more of it."""
        run = self.tokens[match.place : match.place + match.length]
        if self.is_code:
            return True
        n_syntax = sum(piece.is_syntax for piece in run)
        if len(run) >= _SHORTEST_IN_PROSE and n_syntax >= _LEAST_SYNTAX:
            return True
        return self._is_whole_line(match) and (n_syntax > 0 or run[-1].text == ":")

    def _is_whole_line(self, match: _Match) -> bool:
        end = match.place + match.length
        begins = (
            match.place == 0 or self.tokens[match.place - 1].line < self.tokens[match.place].line
        )
        return begins and (
            end == len(self.tokens) or self.tokens[end].line > self.tokens[end - 1].line
        )


@dataclass(frozen=True)
class HiddenCode:
    """The program that a user must not hand over."""

    reference: str
    language: Language
    entry_point: str
    statement: str = ""
    """The task's statement: code that it gives is no secret."""

    @cached_property
    def body(self) -> tuple[str, ...]:
        """Tokens of the reference's body."""
        body = pieces(body_of(self.reference, self.language, self.entry_point), self.language)
        return tuple(piece.text for piece in body or pieces(self.reference, self.language))

    def disclosed(self, messages: Sequence[str]) -> float:
        """Return the share of the body's tokens that stand in all these messages together, each counted once.

        Returns:
            Ratio in [0, 1].
        """
        secret = len(self.body) - len(self._given)
        return len(self._covered(messages, self._given) - self._given) / secret if secret else 0.0

    @cached_property
    def _given(self) -> frozenset[int]:
        """Places in the body that the statement holds."""
        return frozenset(self._covered((self.statement,), frozenset()))

    def _covered(self, messages: Sequence[str], before: frozenset[int]) -> set[int]:
        """Return the places in the body that messages hold, with those from before."""
        parts = [part for text in messages for part in self._parts(text)]
        covered, taken = set(before), set[tuple[int, int]]()
        while found := self._longest(parts, covered, taken):
            covered.update(range(found.at, found.at + found.length))
            taken.update((found.part, found.place + n) for n in range(found.length))
        return covered

    def fault(self, reply: str, earlier: Sequence[str] = ()) -> str | None:
        """Return why a reply hands the program over; None where it does not.

        It does where it tells more of the reference than earlier messages and all of them hold a third of its body; or where it
        holds a code block of two lines or more that defines the function, whoever wrote that program.
        """
        if (
            self.disclosed((reply,)) > 0
            and (share := self.disclosed((*earlier, reply))) >= MOST_DISCLOSED
        ):
            return f"{share:.0%} of the secret solution would be known then"
        block = delivered(reply, self.language, self.entry_point)
        if block is not None and sum(bool(line.strip()) for line in block.splitlines()) > 1:
            return "it holds a program"
        return None

    def withheld(self, reply: str, earlier: Sequence[str] = ()) -> str:
        """Return the reply without code blocks and lines of the reference; empty where that leaves nothing, or still too much."""
        lines = without_blocks(reply).splitlines()
        lines = [line for line in lines if not self._is_code(line)]
        kept = "\n".join(lines).strip()
        return "" if self.fault(kept, earlier) else kept

    def _is_code(self, line: str) -> bool:
        text = line.strip()
        is_signature = self.language.defines(text, self.entry_point) and text.endswith(
            (":", "{", "}", ")")
        )
        return is_signature or self.disclosed((f"`{text}`",)) > 0 or text.startswith("return ")

    def _parts(self, text: str) -> Iterator[_Part]:
        """Blocks and inline code, and the whole message as prose: a program without a fence runs over many lines of it."""
        bare = talk_of(text, self.entry_point)
        for code in _INLINE.findall(bare):
            yield _Part(pieces(code.strip("`"), self.language), True)
        unfenced = _FENCE.sub("", bare)
        if self.language.kind != "javascript":  # where they are the marks of templates
            unfenced = _INLINE.sub(" ", unfenced)
        yield _Part(pieces(unfenced, self.language), False)

    def _longest(
        self, parts: Sequence[_Part], covered: set[int], taken: set[tuple[int, int]]
    ) -> _Match | None:
        """Return the longest run that counts and is not covered yet, the earliest of several."""
        matches = (
            match
            for match in self._matches(parts, covered, taken)
            if parts[match.part].counts(match)
        )
        return max(
            matches,
            key=lambda match: (match.length, -match.at, -match.part, -match.place),
            default=None,
        )

    def _matches(
        self, parts: Sequence[_Part], covered: set[int], taken: set[tuple[int, int]]
    ) -> Iterator[_Match]:
        for number, part in enumerate(parts):
            texts = [piece.text for piece in part.tokens]
            for place in range(len(texts) - _SHORTEST + 1):
                for at in self._starts.get(tuple(texts[place : place + _SHORTEST]), ()):
                    length = 0
                    while (
                        at + length < len(self.body)
                        and place + length < len(texts)
                        and self.body[at + length] == texts[place + length]
                        and at + length not in covered
                        and (number, place + length) not in taken
                    ):
                        length += 1
                    if length >= _SHORTEST:
                        yield _Match(length, at, number, place)

    @cached_property
    def _starts(self) -> dict[tuple[str, ...], list[int]]:
        """Run of the shortest length -> its places in the body."""
        found = defaultdict[tuple[str, ...], list[int]](list)
        for at in range(len(self.body) - _SHORTEST + 1):
            found[self.body[at : at + _SHORTEST]].append(at)
        return dict(found)
