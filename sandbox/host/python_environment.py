"""Python of sandboxed programs: the interpreter that runs Parley, with its packages, read-only."""

import functools
import hashlib
import os
import platform
import sys
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


def placed(item: str, harness: str) -> str:
    """Return a command's item with `{python}` or `{harness}/...` replaced.

    Other items are returned unchanged.
    """
    if item == "{python}":
        return interpreter()
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
