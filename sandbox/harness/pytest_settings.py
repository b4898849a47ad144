"""Finds a project's settings of pytest where pytest itself would, if it were given the project's files alone.

Our own tests lie outside of the project, and pytest looks for settings above what it is given. No class is defined here.
"""

from __future__ import annotations

import builtins
import os

__builtins__ = dict(builtins.__dict__)  # the candidate can change the common ones

_PLACES = (
    *(("pytest.toml", "[pytest]"), (".pytest.toml", "[pytest]"), ("pytest.ini", ""), (".pytest.ini", "")),
    *(("pyproject.toml", "[tool.pytest"), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")),
)
"""Files in the order in which pytest takes them, and what one must hold to count."""


def settings_of(root: str, files: list[str]) -> tuple[str, ...]:
    """Give pytest's options that name the settings' file: the nearest to what the test files share, up to the project's root."""
    folder = os.path.commonpath([os.path.dirname(f"{root}/{name}") for name in files])
    while f"{folder}/".startswith(f"{root}/"):
        for name, mark in _PLACES:
            path = f"{folder}/{name}"
            if os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    if mark in file.read():
                        return ("-c", path)
        folder = os.path.dirname(folder)
    return ()
