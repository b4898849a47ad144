"""Other values than those that tests expect: of the same type, plausible, far from what tolerances or remainders would excuse."""

import ast
import json
import random
import string

_OFFSETS = (1049, 2017, 3163, 4421, 5519, 6247, 7121, 8237, 9293)
"""Primes: a value that counts by remainders of a small number meets none of them."""
_WORDS = ("harbor", "lantern", "meadow", "orchid", "pebble", "timber", "violet", "walnut")


def other_source(
    node: ast.Constant, draw: random.Random, *, below: bool = False, like: str = ""
) -> str:
    """Return the source of another constant in a constant's place.

    Args:
        below: a number gets smaller, as where a bound is to be missed; else larger.
        like: the constant's own source, whose quotes the other one gets.
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
    """Return the source of a larger number than a decimal literal's."""
    return (
        str(float(source) + draw.choice(_OFFSETS))
        if "." in source
        else str(int(source) + draw.choice(_OFFSETS))
    )


def other_text(text: str, draw: random.Random) -> str:
    """Shift letters and digits, and keep all else: the text looks like the one before."""
    letters, digits = draw.randrange(1, 26), draw.randrange(1, 10)
    shifted = "".join(_shifted(one, letters, digits) for one in text)
    return shifted if shifted != text else text + draw.choice(_WORDS)


def _shifted(one: str, letters: int, digits: int) -> str:
    for alphabet, by in (
        (string.ascii_lowercase, letters),
        (string.ascii_uppercase, letters),
        (string.digits, digits),
    ):
        if one in alphabet:
            return alphabet[(alphabet.index(one) + by) % len(alphabet)]
    return one


def hidden_source(node: ast.Constant, draw: random.Random) -> str:
    """Return an expression of the same value that names the constant nowhere; empty for types that have none.

    It uses operators alone, since code under test may give built-ins another meaning, and the compiler does not fold it.
    """
    value = node.value
    if type(value) is int:
        mask = draw.choice(_OFFSETS)
        return f"([{value ^ mask}][0] ^ {mask})"
    if type(value) is str and value and value.isprintable():
        return f"({'%c' * len(value)!r} % ({''.join(f'{ord(one)}, ' for one in value)}))"
    return ""
