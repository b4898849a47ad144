"""Code in a chat answer, by CodeIF-Bench's rules."""

import re

_FENCED_PYTHON = re.compile(r"```python\r?\n(.*?)```", re.DOTALL)
_DOCSTRING_AFTER_FOUR_SPACES = re.compile(r' {4}"""\r?\n.*?"""', re.DOTALL)


def first_python_block(answer: str) -> str:
    """Return the first fenced block tagged `python`, or else the whole answer.

    This is CodeIF-Bench's rule.
    """
    match = _FENCED_PYTHON.search(answer)
    return match.group(1) if match else answer


def upstream_v0_cleanup(code: str) -> str:
    """Return the code with the deletions behind CodeIF-Bench's published verdicts.

    Delete each text that opens with triple quotes after four spaces at a line's end, up to the next
    triple quotes, and then all blank lines.
    """
    without_docstrings = _DOCSTRING_AFTER_FOUR_SPACES.sub("", code)
    return "\n".join(line for line in without_docstrings.splitlines() if line.strip())
