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
        SandboxUnavailable: it is missing, or may not be run.
    """
    if not sys.executable or not os.access(sys.executable, os.X_OK):
        raise SandboxUnavailable(
            f"{sys.executable!r}: the Python interpreter is missing or may not be run. "
            "Install Parley again"
        )
    return sys.executable


def placed(item: str, harness: str) -> str:
    """Return a command's item with `{python}` and `{harness}/...` replaced.

    Other text is unchanged.
    """
    if item == "{python}":
        return interpreter()
    return f"{harness}/{item.removeprefix('{harness}/')}" if item.startswith("{harness}/") else item


@functools.cache
def package_folders() -> tuple[str, ...]:
    """Return the folders of installed packages on `sys.path`, in order.

    Folders of source checkouts are left out.
    """
    return tuple(
        p
        for p in sys.path
        if os.path.basename(p) in ("site-packages", "dist-packages") and os.path.isdir(p)
    )


def environment_folders(name: str) -> tuple[str, ...]:
    """Return the folder of packages of an extra environment; none if it is not installed.

    The environment has other versions than Parley's own. It lies in Parley's own environment, which
    every sandbox shows to programs.
    """
    folder = os.path.join(sys.prefix, "share", "parley", name)
    return (folder,) if os.path.isfile(os.path.join(folder, INSTALLED)) else ()


@functools.cache
def python_roots() -> tuple[str, ...]:
    """Return the folders that the interpreter and its packages need, outermost only, sorted."""
    real = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
    candidates = {
        os.path.abspath(p)
        for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, real, *package_folders())
    }
    return tuple(
        sorted(p for p in candidates if not any(is_inside(p, other) for other in candidates - {p}))
    )


def is_inside(path: str, folder: str) -> bool:
    """Return True if `path` is `folder` or lies below it. Both are absolute."""
    return os.path.commonpath((path, folder)) == folder


def clean_environment(home: str, report_fd: int) -> dict[str, str]:
    """Return all variables that a sandboxed program sees, without the parent's environment.

    Number libraries get one thread: each thread's arena counts against the address space, and slots
    are counted in CPUs.
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

    Each process computes it once. Names and versions are those of the metadata folders
    (`numpy-2.4.1.dist-info`): reading all metadata files takes 20 times longer.

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
