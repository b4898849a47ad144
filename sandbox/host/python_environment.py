"""Pythons of sandboxed programs.

By default, a program runs on the interpreter that runs Parley, with its packages, read-only.
Environments of old projects need older Pythons: `find_python` searches this machine for them.
"""

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import SandboxUnavailable

REPORT_VARIABLE = "PARLEY_REPORT_FD"
INSTALLED = ".installed"
"""File that marks an environment as complete."""
HARNESS = Path(__file__).parents[1] / "harness"
"""Folder of trusted scripts that run inside the sandbox."""


def interpreter() -> str:
    """Return the path of the Python interpreter.

    Raises:
        SandboxUnavailable: the interpreter is missing or not executable.
    """
    if not sys.executable or not os.access(sys.executable, os.X_OK):
        raise SandboxUnavailable(
            f"{sys.executable!r}: the Python interpreter is missing or may not be run. "
            "Install Parley again"
        )
    return sys.executable


def placed(item: str, harness: str, python: str = "") -> str:
    """Return a command's item with `{python}` or `{harness}/...` replaced.

    Other items are returned unchanged. By default, `{python}` is the interpreter of Parley.
    """
    if item == "{python}":
        return python or interpreter()
    return f"{harness}/{item.removeprefix('{harness}/')}" if item.startswith("{harness}/") else item


@functools.cache
def package_folders() -> tuple[str, ...]:
    """Return the folders of installed packages on `sys.path`, in order.

    Folders of source checkouts are omitted.
    """
    return tuple(
        p
        for p in sys.path
        if os.path.basename(p) in ("site-packages", "dist-packages") and os.path.isdir(p)
    )


def environment_folders(name: str) -> tuple[str, ...]:
    """Return the folder of packages of an extra environment, if it is installed.

    An extra environment contains other versions of packages than Parley's own. It is in Parley's
    own environment folder, which programs in every sandbox can read.
    """
    folder = os.path.join(sys.prefix, "share", "parley", name)
    return (folder,) if os.path.isfile(os.path.join(folder, INSTALLED)) else ()


@functools.cache
def python_roots() -> tuple[str, ...]:
    """Return the folders that the interpreter and its packages need, without nested ones."""
    real = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
    candidates = {
        os.path.abspath(p)
        for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, real, *package_folders())
    }
    return tuple(
        sorted(p for p in candidates if not any(is_inside(p, other) for other in candidates - {p}))
    )


def is_inside(path: str, folder: str) -> bool:
    """Return True if `path` is `folder` or is below it. Both must be absolute."""
    return os.path.commonpath((path, folder)) == folder


def clean_environment(home: str, report_fd: int) -> dict[str, str]:
    """Return all variables that a sandboxed program sees, without the parent's environment.

    Numerical libraries get one thread, because the memory arena of each thread counts against the
    address space, and because a slot stands for one CPU.
    """
    return {
        "PATH": f"{os.path.dirname(interpreter())}:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        REPORT_VARIABLE: str(report_fd),
    }


@functools.cache
def environment_digest(folders: tuple[str, ...] = ()) -> str:
    """Return Python's version and a digest of every installed distribution.

    Each process computes the digest once. Names and versions are taken from the names of metadata
    folders (`numpy-2.4.1.dist-info`), because reading all metadata files takes 20 times as long.

    Args:
        folders: folders of packages; Parley's own if empty.
    """
    suffixes = (".dist-info", ".egg-info")
    names = sorted(
        {
            name
            for folder in folders or package_folders()
            for name in os.listdir(folder)
            if name.endswith(suffixes)
        }
    )
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{version} {platform.machine()}; packages {digest}"


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
