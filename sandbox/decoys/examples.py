"""Alteration of doctest examples in a test's text."""

import ast
import random

from sandbox.decoys.values import other_source


def altered_examples(text: str, draw: random.Random) -> str | None:
    """Alter the first literal that a doctest example expects; return None without one."""
    lines = text.split("\n")
    for n, line in enumerate(lines[:-1]):
        expected = lines[n + 1].strip()
        if (
            line.strip().startswith((">>>", "..."))
            and expected
            and not expected.startswith((">>>", "..."))
        ):
            try:
                value = ast.parse(expected, mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if isinstance(value, ast.Constant):
                return "\n".join(
                    [
                        *lines[: n + 1],
                        lines[n + 1].replace(expected, other_source(value, draw)),
                        *lines[n + 2 :],
                    ]
                )
    return None
