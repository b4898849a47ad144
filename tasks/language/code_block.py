"""The code in a chat answer."""

import re

_FENCED_PYTHON = re.compile(r"```python\r?\n(.*?)```", re.DOTALL)
_DOCSTRING_AFTER_FOUR_SPACES = re.compile(r' {4}"""\r?\n.*?"""', re.DOTALL)


def first_python_block(answer: str) -> str:
    """The first fenced block tagged `python`; the whole answer where there is none (CodeIF-Bench's rule, FACTS)."""
    found = _FENCED_PYTHON.search(answer)
    return found.group(1) if found else answer


def upstream_v0_cleanup(code: str) -> str:
    """The deletions that CodeIF-Bench's published verdicts were made with.

    Takes out each text that opens with triple quotes after four spaces at a line's end, up to the next triple quotes, and then
    all blank lines.
    """
    without_docstrings = _DOCSTRING_AFTER_FOUR_SPACES.sub("", code)
    return "\n".join(line for line in without_docstrings.splitlines() if line.strip())
