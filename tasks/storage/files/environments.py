"""Environments of packages that repositories' programs run with: built once from their pins, kept by the digest of these.

A recipe is kept where data is staged; the environment is built where it is first needed. Building takes a package index and,
once, up to a minute. Inside the sandbox it stands at one place, read-only, with an interpreter of its own.
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

from sandbox.host.python_environment import is_inside, python_roots
from sandbox.workspace.interface import ENVIRONMENT_PLACE
from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.errors import SandboxUnavailable
from tasks.storage.replaced_file import replace_file

_BUILD_S = 900
_OLDEST = (3, 11)
"""An older interpreter has no `-P`: the candidate's own files could stand for modules."""
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*")
_PTH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.pth")


class Recipe(Frozen):
    """What an environment is built from."""

    python: str
    """Version without its last part: 3.11."""
    requirements: tuple[str, ...]
    """Pins, `name==version` each."""
    pth: tuple[tuple[str, str], ...] = ()
    """Name and text of .pth files that the interpreter reads as it starts."""

    @model_validator(mode="after")
    def _nothing_but_pins(self) -> Self:
        """A line of requirements could name an option, a path or an address, and a file's name lead out of the environment."""
        version = re.fullmatch(r"(\d+)\.(\d+)", self.python)
        if version is None:
            raise ValueError(f"python is {self.python!r}: give a version as 3.11")
        if (int(version[1]), int(version[2])) < _OLDEST:
            raise ValueError(f"python is {self.python}: tests are graded on 3.11 and newer; give pins for one of these")
        for line in self.requirements:
            if not _PIN.fullmatch(line):
                raise ValueError(f"requirement {line!r}: must be NAME==VERSION")
        for name, _ in self.pth:
            if not _PTH.fullmatch(name):
                raise ValueError(f"file {name!r}: must be a plain name that ends in .pth")
        return self

    @property
    def digest(self) -> str:
        """Its name."""
        return content_id(self)


class Environments:
    """A folder of recipes and environments; several processes may use it.

    Args:
        path: made when something is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, recipe: Recipe) -> str:
        """Keep a recipe; its digest. Nothing is built by it."""
        place = self._path / f"{recipe.digest}.json"
        if not place.exists():
            self._path.mkdir(parents=True, exist_ok=True)
            replace_file(place, recipe.model_dump_json().encode())
        return recipe.digest

    def folder(self, digest: str) -> Path:
        """A recipe's environment, built if it is not there, for `ENVIRONMENT_PLACE`; `packages` in it leads to its modules.

        Raises:
            SandboxUnavailable: it cannot be built: no such Python, or no package index.
        """
        from filelock import FileLock

        place = self._path / digest
        if place.is_dir():
            return place
        with FileLock(self._path / f"{digest}.lock"):
            if not place.is_dir():
                self._build(digest, place)
        return place

    def _build(self, digest: str, place: Path) -> None:
        try:
            recipe = Recipe.model_validate_json((self._path / f"{digest}.json").read_bytes())
        except OSError as error:
            raise SandboxUnavailable(
                f"environment {digest}: its recipe is not in {self._path} ({error}); stage the data again"
            ) from error
        partial = self._path / f"partial-{os.getpid()}-{token_hex(4)}"
        try:
            _install(recipe, partial)
            partial.rename(place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _install(recipe: Recipe, place: Path) -> None:
    python = _interpreter(recipe.python)
    uv = shutil.which("uv")
    _run(uv, "venv", "--quiet", "--python", python, str(place)) if uv else _run(python, "-m", "venv", str(place))
    pins = place / "requirements.txt"
    pins.write_text("\n".join(recipe.requirements) + "\n")
    own = str(place / "bin" / "python")
    if uv:
        _run(uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", own, "-r", str(pins))
    else:
        _run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "-r", str(pins))
    packages = next(place.glob("lib/python*/site-packages"))
    (place / "packages").symlink_to(packages.relative_to(place))
    for name, text in recipe.pth:
        (packages / name).write_text(text + "\n")
    _move_scripts(place)


def _move_scripts(place: Path) -> None:
    """Have the scripts name the interpreter as it is found inside the sandbox."""
    for script in (place / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        first, newline, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!" + os.fsencode(place)):
            script.write_bytes(f"#!{ENVIRONMENT_PLACE}/bin/python".encode() + newline + rest)


def _interpreter(version: str) -> str:
    """A Python of that version that sandboxes show."""
    own = os.path.realpath(sys.executable)
    found = own if version == f"{sys.version_info.major}.{sys.version_info.minor}" else shutil.which(f"python{version}")
    shown = ("/usr", *python_roots())
    if found is None or not any(is_inside(os.path.realpath(found), root) for root in shown):
        raise SandboxUnavailable(
            f"an environment needs Python {version}, and no sandbox shows one (Parley runs on {sys.version.split()[0]}): install"
            " it below /usr, or run Parley on it"
        )
    return os.path.realpath(found)


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"an environment could not be built: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise SandboxUnavailable(f"an environment could not be built by {argv[0]} {argv[1]}: {' / '.join(said)}")
