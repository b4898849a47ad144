"""Search for a Python of a given version on this machine.

Environments of old projects need older Pythons than Parley's.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_QUERY = (
    "import sys, sysconfig; print('%d.%d' % sys.version_info[:2]); print(sys.base_prefix); "
    "print(sys.executable)"
)
_QUERY_S = 20


@dataclass(frozen=True)
class FoundPython:
    """Python interpreter, and the folder that it needs."""

    path: str
    """Path of the program itself, not of a symbolic link to it."""
    prefix: str
    """Folder of its standard library."""


@functools.cache
def find_python(version: str) -> FoundPython | None:
    """Return a Python of a version (3.6): Parley's own, one on the PATH, or one that pyenv built.

    An interpreter on the PATH may be a script that starts another interpreter, or refuses to
    (pyenv's shims). It is accepted if it reports the requested version.
    """
    for path in _candidates(version):
        python = _described(path, version)
        if python is not None:
            return python
    return None


def _candidates(version: str) -> Iterator[str]:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield sys.executable
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted(root.glob(f"versions/{version}.*"), key=lambda folder: len(folder.name)):
        yield str(folder / "bin" / "python")


def _described(path: str, version: str) -> FoundPython | None:
    try:
        done = subprocess.run(
            (path, "-I", "-S", "-c", _QUERY),
            capture_output=True,
            text=True,
            timeout=_QUERY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != 3 or lines[0] != version:
        return None
    return FoundPython(os.path.realpath(lines[2]), os.path.realpath(lines[1]))
