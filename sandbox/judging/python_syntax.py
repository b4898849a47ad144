"""Python's own parser, for tests and programs that are read in this process and run elsewhere."""

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(text: str) -> ast.Module:
    """`ast.parse`, by one thread at a time.

    Python 3.11 counts the depth of all trees in one place (cpython#106905): where a collection of garbage lets another thread in,
    sound code is refused with a SystemError. Programs are judged on threads.

    Raises:
        SyntaxError: it is not Python.
        ValueError: it holds a null byte.
        RecursionError: it is nested too deep.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(text)
