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
from sandbox.host.python_versions import FoundPython, find_python
from sandbox.workspace.interface import ENVIRONMENT_PLACE
from schemas.base import Frozen
from schemas.content_id import content_id
from schemas.errors import SandboxUnavailable
from tasks.storage.replaced_file import replace_file

_BUILD_S = 900
_OLDEST = (3, 5)
"""The harness's part in an environment runs on this version and newer (`sandbox/harness/project_tests.py`)."""
_LAST_TOOLS = {
    "3.5": ("pip==20.3.4", "setuptools==50.3.2", "wheel==0.37.1"),
    "3.6": ("pip==21.3.1", "setuptools==59.6.0", "wheel==0.37.1"),
    "3.7": ("pip==24.0", "setuptools==68.0.0", "wheel==0.42.0"),
    "3.8": ("pip==25.0.1", "setuptools==75.3.2", "wheel==0.45.1"),
}
"""The last installers for an older Python. The installers that come with such a Python install releases that need a newer one."""
_FOLDER = "python.txt"
"""Names the folder of the Python that an environment was made with."""
_PIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*"
)
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
            raise ValueError(
                f"python is {self.python}: tests are graded on 3.5 and newer; give pins for one of these"
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
        """Its name."""
        return content_id(self)


class Environments:
    """A folder of recipes and environments; several processes may use it.

    An environment's folder is shown to sandboxes with that of the Python that it was made with.

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

    def can_have(self, recipe: Recipe) -> bool:
        """Tell whether a recipe's environment is built, or this machine has its Python."""
        return (self._path / recipe.digest).is_dir() or find_python(recipe.python) is not None

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

    def shown(self, digest: str) -> dict[str, str]:
        """Return what a sandbox has to show for a recipe's environment: place inside -> folder of this host.

        Raises:
            SandboxUnavailable: see `folder`.
        """
        folder = self.folder(digest)
        try:
            prefix = (folder / _FOLDER).read_text(encoding="utf-8")
        except FileNotFoundError:  # built by a release that used Parley's own Python alone
            prefix = ""
        is_visible = not prefix or any(is_inside(prefix, root) for root in _visible_roots())
        return {ENVIRONMENT_PLACE: str(folder)} | ({} if is_visible else {prefix: prefix})

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
    """Have the scripts name the interpreter as it is found inside the sandbox."""
    for script in (place / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        first, newline, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!" + os.fsencode(place)):
            script.write_bytes(f"#!{ENVIRONMENT_PLACE}/bin/python".encode() + newline + rest)


def _visible_roots() -> tuple[str, ...]:
    """Return the folders that each sandbox shows in any case."""
    return ("/usr", *python_roots())


def _interpreter(version: str) -> FoundPython:
    found = find_python(version)
    if found is None:
        raise SandboxUnavailable(
            f"an environment needs Python {version}, and this machine has none (Parley runs on {sys.version.split()[0]}): put a"
            f" python{version} on the PATH, or build one with pyenv"
        )
    return found


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"an environment could not be built: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise SandboxUnavailable(
            f"an environment could not be built by {argv[0]} {argv[1]}: {' / '.join(said)}"
        )
