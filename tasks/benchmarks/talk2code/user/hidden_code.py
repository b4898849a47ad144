"""Does a user's reply hand the program over? A simulated user knows the reference, and may say what it does and no more."""

import re
from dataclasses import dataclass
from functools import cached_property

from tasks.benchmarks.talk2code.languages import Language, delivered, without_blocks

SHORTEST_LINE = 8
"""Characters, without spaces, from which on a line of a program tells something: a brace or `else:` does not."""


@dataclass(frozen=True)
class HiddenCode:
    """The program that a user must not hand over."""

    reference: str
    language: Language
    entry_point: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Lines that tell something, without spaces. A line that only names the function, as users may, is none of them."""
        packed = (_packed(line) for line in self.reference.splitlines())
        told = tuple(dict.fromkeys(line for line in packed if len(line) >= SHORTEST_LINE and not self._is_signature(line)))
        return told or (_packed(self.reference),)

    def fault(self, reply: str) -> str | None:
        """Why a reply hands the program over; None where it does not.

        It does where half of the reference's telling lines stand in it, spaces not counted; or where it holds a code block of
        two lines or more that defines the function, whosever program that is.
        """
        said = _packed(reply)
        n_told = sum(line in said for line in self.lines)
        if 2 * n_told >= len(self.lines):
            return f"{n_told} of {len(self.lines)} lines of the secret solution stand in it"
        block = delivered(reply, self.language, self.entry_point)
        if block is not None and sum(bool(line.strip()) for line in block.splitlines()) > 1:
            return "it holds a program"
        return None

    def withheld(self, reply: str) -> str:
        """The reply without code blocks and lines of the reference; empty where that leaves nothing, or still too much."""
        signatures = tuple(line for line in map(_packed, self.reference.splitlines()) if self._is_signature(line))
        prose = without_blocks(reply).splitlines()
        kept = "\n".join(line for line in prose if not any(told in _packed(line) for told in (*self.lines, *signatures))).strip()
        return "" if self.fault(kept) else kept

    def _is_signature(self, line: str) -> bool:
        return self.entry_point in line and line.endswith((":", "{"))


def _packed(text: str) -> str:
    return re.sub(r"\s+", "", text)
