"""Tests of our own that run behind the others, with known outcomes: whoever turns failures into passes turns these, too.

Trusted, standard library only. No class is defined here.
"""

from __future__ import annotations

import builtins
import os

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

TYPE_CHECKING = False  # importing typing would cost each run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT = """
import pytest

def test_{a}_fails():
    assert {a!r} == {b!r}

def test_{b}_raises():
    raise RuntimeError({a!r})

def test_{a}_expects_another():
    with pytest.raises(KeyError):
        int("0")

def test_{b}_passes():
    assert {b!r} == {b!r}
"""


def written_canaries() -> tuple[str, dict[str, str]]:
    """Write a file of tests under names that nobody knows before.

    Returns:
        Its path, and pytest's word for each test by its name.
    """
    folder = f"/tmp/{os.urandom(6).hex()}"
    os.mkdir(folder)
    path, a, b = f"{folder}/test_{os.urandom(6).hex()}.py", f"a{os.urandom(6).hex()}", f"b{os.urandom(6).hex()}"
    with open(path, "w") as file:
        file.write(_TEXT.format(a=a, b=b))
    failing = (f"test_{a}_fails", f"test_{b}_raises", f"test_{a}_expects_another")
    return path, {**dict.fromkeys(failing, "FAILED"), f"test_{b}_passes": "PASSED"}


def untrue_canaries(expected: Mapping[str, str], told: Mapping[str, str]) -> str:
    """Say which of them ended as they must not; nothing where none did. In which order they ran is the project's own affair."""
    words = {node.rpartition("::")[2]: word for node, word in told.items()}
    wrong = [words[name] for name, word in expected.items() if words.get(name, word) != word]
    return f"tests that must fail, or one that must pass, ended as {', '.join(wrong)}" if wrong else ""


def missing_canaries(expected: Mapping[str, str], told: Mapping[str, str]) -> int:
    """Count those that did not run: settings of the project can end a run before they do."""
    return len(expected.keys() - {node.rpartition("::")[2] for node in told})
