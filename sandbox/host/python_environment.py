"""The Python that sandboxed programs get: the one that runs Parley, with its installed packages, read-only."""

import functools
import hashlib
import os
import platform
import sys
from pathlib import Path

from schemas.errors import SandboxUnavailable

REPORT_VARIABLE = "PARLEY_REPORT_FD"
INSTALLED = ".installed"
"""File that says that an environment is complete."""
HARNESS = Path(__file__).parents[1] / "harness"
"""Trusted scripts that run inside the sandbox."""


def interpreter() -> str:
    """Path of the Python interpreter.

    Raises:
        SandboxUnavailable: it is not there, or may not be run.
    """
    if not sys.executable or not os.access(sys.executable, os.X_OK):
        raise SandboxUnavailable(
            f"{sys.executable!r}: the Python interpreter is gone or may not be run; install Parley again"
        )
    return sys.executable


def placed(item: str, harness: str) -> str:
    """An argument with its place filled in: `{python}`, or `{harness}/...`. Any other text is left alone."""
    if item == "{python}":
        return interpreter()
    return f"{harness}/{item.removeprefix('{harness}/')}" if item.startswith("{harness}/") else item


@functools.cache
def package_folders() -> tuple[str, ...]:
    """Folders on `sys.path` that hold installed packages, in order; folders of source checkouts are not among them."""
    return tuple(
        p
        for p in sys.path
        if os.path.basename(p) in ("site-packages", "dist-packages") and os.path.isdir(p)
    )


def environment_folders(name: str) -> tuple[str, ...]:
    """Folder of packages that stand beside Parley's own, in other versions; none where that environment is not installed.

    It lies in Parley's own environment, which every sandbox shows to programs.
    """
    folder = os.path.join(sys.prefix, "share", "parley", name)
    return (folder,) if os.path.isfile(os.path.join(folder, INSTALLED)) else ()


@functools.cache
def python_roots() -> tuple[str, ...]:
    """Folders that the interpreter and its packages need, outermost only, sorted."""
    real = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
    wanted = {
        os.path.abspath(p)
        for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, real, *package_folders())
    }
    return tuple(
        sorted(p for p in wanted if not any(is_inside(p, other) for other in wanted - {p}))
    )


def is_inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it; both absolute."""
    return os.path.commonpath((path, folder)) == folder


def clean_environment(home: str, report_fd: int) -> dict[str, str]:
    """All variables a sandboxed program sees. Nothing of the parent's environment is handed on.

    Number libraries get one thread: each thread's arena counts against the address space, and slots are counted in CPUs.
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
    """Return Python's version and a digest of every installed distribution, computed once a process.

    Names and versions are those of the metadata folders (`numpy-2.4.1.dist-info`): reading all metadata files
    takes 20 times longer.

    Args:
        folders: folders of packages; Parley's own where none is given.
    """
    suffixes = (".dist-info", ".egg-info")
    found = sorted(
        {
            name
            for folder in folders or package_folders()
            for name in os.listdir(folder)
            if name.endswith(suffixes)
        }
    )
    digest = hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]
    return f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}; packages {digest}"
