"""Python's own parser, for tests and programs that this process parses but never runs."""

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(text: str) -> ast.Module:
    """Parse Python, one thread at a time.

    Python 3.11 counts the depth of all syntax trees in one variable (cpython#106905). If a garbage
    collection switches threads, the parser rejects valid code with a SystemError. Programs are
    judged in several threads.

    Raises:
        SyntaxError: the text is not Python.
        ValueError: the text contains a null byte.
        RecursionError: the text is nested too deeply.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(text)
