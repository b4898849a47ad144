"""Python environments of repositories' programs, built once from pins and named by their digest.

Staging stores a recipe. The environment is built when it is first needed, which takes a package
index and up to a minute. In the sandbox it is mounted read-only at a fixed path, with its own
interpreter.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from secrets import token_hex
from typing import Self

from pydantic import model_validator

from sandbox.host.python_environment import FoundPython, find_python, is_inside, python_roots
from sandbox.workspace.interface import ENVIRONMENT_PLACE
from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.errors import SandboxUnavailable
from tasks.storage.new_folder import replace_file

_BUILD_S = 900
_OLDEST = (3, 5)
"""Oldest Python that runs the harness in an environment (`sandbox/harness/project_tests.py`)."""
_LAST_TOOLS = {
    "3.5": ("pip==20.3.4", "setuptools==50.3.2", "wheel==0.37.1"),
    "3.6": ("pip==21.3.1", "setuptools==59.6.0", "wheel==0.37.1"),
    "3.7": ("pip==24.0", "setuptools==68.0.0", "wheel==0.42.0"),
    "3.8": ("pip==25.0.1", "setuptools==75.3.2", "wheel==0.45.1"),
}
"""Last versions of the installers for old Python versions.

The bundled installers of these versions install packages that need a newer Python.
"""
_FOLDER = "python.txt"
"""File with the folder of the Python that an environment was built with."""
_PIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*"
)
_PTH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.pth")


class Recipe(Frozen):
    """Recipe of an environment: its Python and its pinned packages."""

    python: str
    """Python version without its last part, such as `3.11`."""
    requirements: tuple[str, ...]
    """Pins: `name==version`."""
    pth: tuple[tuple[str, str], ...] = ()
    """Files that the interpreter reads at its start: (name ending in .pth, text)."""

    @model_validator(mode="after")
    def _nothing_but_pins(self) -> Self:
        """Refuse requirements that are options, paths or addresses, and file names with folders."""
        version = re.fullmatch(r"(\d+)\.(\d+)", self.python)
        if version is None:
            raise ValueError(f"python is {self.python!r}: it must be a version such as 3.11")
        if (int(version[1]), int(version[2])) < _OLDEST:
            raise ValueError(
                f"python is {self.python}: tests need Python 3.5 or newer. Change the pins"
            )
        for line in self.requirements:
            if not _PIN.fullmatch(line):
                raise ValueError(f"requirement {line!r}: must be NAME==VERSION")
        for name, _ in self.pth:
            if not _PTH.fullmatch(name):
                raise ValueError(f"file {name!r}: must be a plain name that ends in .pth")
        return self

    @property
    def digest(self) -> str:
        """Digest of the recipe, which names its environment."""
        return content_id(self)


class Environments:
    """Folder of recipes and environments. Several processes may use it.

    Sandboxes see an environment's folder and the folder of the Python that it was built with.

    Args:
        path: folder, which is created with the first recipe.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, recipe: Recipe) -> str:
        """Store a recipe and return its digest. Nothing is built."""
        place = self._path / f"{recipe.digest}.json"
        if not place.exists():
            self._path.mkdir(parents=True, exist_ok=True)
            replace_file(place, recipe.model_dump_json().encode())
        return recipe.digest

    def can_have(self, recipe: Recipe) -> bool:
        """Return True if the environment is built already, or this machine has its Python."""
        return (self._path / recipe.digest).is_dir() or find_python(recipe.python) is not None

    def folder(self, digest: str) -> Path:
        """Return the folder of a recipe's environment, which is built if it is missing.

        Sandboxes show it at `ENVIRONMENT_PLACE`. Its link `packages` leads to the modules.

        Raises:
            SandboxUnavailable: the environment cannot be built, because its Python or a package
                index is missing.
        """
        from filelock import FileLock

        place = self._path / digest
        if place.is_dir():
            return place
        with FileLock(self._path / f"{digest}.lock"):
            if not place.is_dir():
                self._build(digest, place)
        return place

    def shown(self, digest: str) -> dict[str, str]:
        """Return the folders that a sandbox must show: path in the sandbox -> path on the host.

        Raises:
            SandboxUnavailable: the environment cannot be built (see `folder`).
        """
        folder = self.folder(digest)
        try:
            prefix = (folder / _FOLDER).read_text(encoding="utf-8")
        except FileNotFoundError:  # built by a release that only used Parley's own Python
            prefix = ""
        is_visible = not prefix or any(is_inside(prefix, root) for root in _visible_roots())
        return {ENVIRONMENT_PLACE: str(folder)} | ({} if is_visible else {prefix: prefix})

    def _build(self, digest: str, place: Path) -> None:
        try:
            recipe = Recipe.model_validate_json((self._path / f"{digest}.json").read_bytes())
        except OSError as error:
            raise SandboxUnavailable(
                f"environment {digest}: its recipe is not in {self._path} ({error}). "
                "Stage the data again"
            ) from error
        partial = self._path / f"partial-{os.getpid()}-{token_hex(4)}"
        try:
            _install(recipe, partial)
            partial.rename(place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _install(recipe: Recipe, place: Path) -> None:
    python = _interpreter(recipe.python)
    tools = _LAST_TOOLS.get(recipe.python)
    uv = shutil.which("uv") if tools is None else None
    _run(uv, "venv", "--quiet", "--python", python.path, str(place)) if uv else _run(
        python.path, "-m", "venv", str(place)
    )
    pins = place / "requirements.txt"
    pins.write_text("\n".join(recipe.requirements) + "\n")
    own = str(place / "bin" / "python")
    if uv:
        _run(
            uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", own, "-r", str(pins)
        )
    else:
        install = (
            own,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        )
        if tools is not None and recipe.requirements:
            _run(*install, *tools)
        if recipe.requirements:
            _run(*install, "-r", str(pins))
    packages = next(place.glob("lib/python*/site-packages"))
    (place / "packages").symlink_to(packages.relative_to(place))
    for name, text in recipe.pth:
        (packages / name).write_text(text + "\n")
    (place / _FOLDER).write_text(python.prefix, encoding="utf-8")
    _move_scripts(place)


def _move_scripts(place: Path) -> None:
    """Replace the interpreter in the first line of scripts by its path in the sandbox."""
    for script in (place / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        first, newline, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!" + os.fsencode(place)):
            script.write_bytes(f"#!{ENVIRONMENT_PLACE}/bin/python".encode() + newline + rest)


def _visible_roots() -> tuple[str, ...]:
    """Return the folders of the host that every sandbox mounts."""
    return ("/usr", *python_roots())


def _interpreter(version: str) -> FoundPython:
    python = find_python(version)
    if python is None:
        raise SandboxUnavailable(
            f"an environment needs Python {version}, and this machine has none (Parley runs on "
            f"{sys.version.split()[0]}). Put a python{version} on the PATH, or build one with pyenv"
        )
    return python


def _run(*argv: str) -> None:
    try:
        process = subprocess.run(
            argv, capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"an environment could not be built: {error}") from error
    if process.returncode:
        lines = (process.stderr or process.stdout).strip().splitlines()[-3:]
        raise SandboxUnavailable(
            f"an environment could not be built by {argv[0]} {argv[1]}: {' / '.join(lines)}"
        )
