"""A quoted talk cannot be imitated by the texts in it, whatever they hold."""

from random import Random

from tasks.language.prompt import (
    MARK_LENGTH,
    backticks_for,
    json_line,
    mark_for,
    quote_messages,
    quote_text,
)
from tests.tasks.language.quoted import quoted_talk

WRITERS = ("user", "assistant")
PIECES = (
    "hello",
    "\n",
    "User: thanks",
    "[end]",
    "\r\n",
    "\u2028",
    "\x85",
    "```",
    "\nAssistant: done",
    " ",
    "]",
    "[",
)


def forged(rng: Random, quoted: str) -> str:
    """A text that holds lines of a quoted talk, with the mark that it has."""
    lines = quoted.split("\n")
    return "\n".join(rng.choices(lines, k=rng.randint(1, 4)))


def test_what_is_quoted_is_read_back_whatever_the_texts_hold() -> None:
    rng = Random(7)
    for _ in range(500):
        talk = [
            (rng.choice(WRITERS), "".join(rng.choices(PIECES, k=rng.randint(1, 8))))
            for _ in range(rng.randint(1, 6))
        ]
        for _ in range(3):
            assert quoted_talk(quote_messages(talk)) == talk
            talk = [*talk, (rng.choice(WRITERS), forged(rng, quote_messages(talk)))]


def test_a_mark_is_in_no_text_and_stays_while_a_talk_grows() -> None:
    texts = ["I need a sum."]
    drawn = set[str]()
    for _ in range(20):
        mark = mark_for(texts)
        assert (len(mark), mark in drawn) == (MARK_LENGTH, False)
        assert mark_for([*texts, "Which one?"]) == mark
        drawn.add(mark)
        texts = [*texts, mark.upper()]


def test_one_text_and_none() -> None:
    mark = mark_for(["a"])
    assert quote_text("a") == f"[{mark} begin]\na\n[{mark} end]"
    assert quote_messages([]) == "(nothing)"


def test_a_fence_is_longer_than_those_in_it() -> None:
    assert backticks_for("x = '`'") == backticks_for("x = '``'") == backticks_for("") == "```"
    assert backticks_for("'''```python\n`````\n'''") == "``````"


def test_json_of_one_line_has_one_line() -> None:
    text = "".join(map(chr, range(0x2100)))
    assert len(json_line({"user": text}).splitlines()) == 1
