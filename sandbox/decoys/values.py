"""Replacements for expected values.

A replacement has the type of the expected value, looks plausible, and is too different to be
accepted because of a tolerance or a remainder.
"""

import ast
import json
import random
import string

_OFFSETS = (1049, 2017, 3163, 4421, 5519, 6247, 7121, 8237, 9293)
"""Offsets for expected numbers. They are prime, so that remainders of the numbers change, too."""
_WORDS = ("harbor", "lantern", "meadow", "orchid", "pebble", "timber", "violet", "walnut")


def other_source(
    node: ast.Constant, draw: random.Random, *, below: bool = False, like: str = ""
) -> str:
    """Return the source of another constant.

    Args:
        node: constant to replace.
        draw: source of random choices.
        below: if True, return a smaller number, which violates a lower bound; otherwise a larger
            one.
        like: source of the constant. The new constant gets the same kind of quotes.
    """
    other = _other(node.value, draw, -1 if below else 1)
    is_doubly_quoted = isinstance(other, str) and like.startswith('"')
    return json.dumps(other, ensure_ascii=False) if is_doubly_quoted else repr(other)


def _other(value: object, draw: random.Random, sign: int) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + sign * (draw.choice(_OFFSETS) + 4 * abs(value))
        case float():
            return value + sign * (draw.choice(_OFFSETS) + 0.5 + 4 * abs(value))
        case complex():
            return value + draw.choice(_OFFSETS)
        case str():
            return other_text(value, draw)
        case bytes():
            return other_text(value.decode("latin-1"), draw).encode("latin-1")
        case _:
            return draw.choice(_OFFSETS)


def other_number(source: str, draw: random.Random) -> str:
    """Return the source of a number that is larger than the given decimal literal."""
    return (
        str(float(source) + draw.choice(_OFFSETS))
        if "." in source
        else str(int(source) + draw.choice(_OFFSETS))
    )


def other_text(text: str, draw: random.Random) -> str:
    """Shift letters and digits, and keep everything else, so that the text looks similar."""
    letters, digits = draw.randrange(1, 26), draw.randrange(1, 10)
    shifted = "".join(_shifted(character, letters, digits) for character in text)
    return shifted if shifted != text else text + draw.choice(_WORDS)


def _shifted(character: str, letters: int, digits: int) -> str:
    for alphabet, by in (
        (string.ascii_lowercase, letters),
        (string.ascii_uppercase, letters),
        (string.digits, digits),
    ):
        if character in alphabet:
            return alphabet[(alphabet.index(character) + by) % len(alphabet)]
    return character


def hidden_source(node: ast.Constant, draw: random.Random) -> str:
    """Return an expression that has the value of the constant without containing it.

    The text is empty for types that have no such expression. The expression uses only operators,
    since code under test may redefine built-ins, and has a form that the compiler does not fold to
    a constant.
    """
    value = node.value
    if type(value) is int:
        mask = draw.choice(_OFFSETS)
        return f"([{value ^ mask}][0] ^ {mask})"
    if type(value) is str and value and value.isprintable():
        return (
            f"({'%c' * len(value)!r} % ({''.join(f'{ord(character)}, ' for character in value)}))"
        )
    return ""
