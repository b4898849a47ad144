"""Checks that `tasks`, `flows` and Parley's other packages are Parley's own.

Users can have packages with these names in the folder in which they start Parley. This module uses
only the standard library, because its functions are sent as code to Dask workers, where even
`flows` can be another package.
"""

import gc
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "parley-eval"
PACKAGES = ("schemas", "sandbox", "tasks", "warehouse", "flows")
ROOT = Path(__file__).resolve().parents[2]


def verify_packages() -> None:
    """Check that this process imports Parley's own packages.

    Raises:
        ConfigError: another package hides one of Parley's packages; the error names its path.
    """
    check_packages("this process", locate_packages(), ROOT)


def locate_packages() -> dict[str, str | None]:
    """Return a map from each package to the file that this process imports for it."""
    origins: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            spec = find_spec(name)
        except ValueError:
            spec = None
        origins[name] = spec.origin if spec else None
    return origins


def describe_installation() -> tuple[str | None, str | None, dict[str, str | None]]:
    """Return version and folder of the installed distribution, and the files of its packages."""
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None, None, locate_packages()
    source = json.loads(installed.read_text("direct_url.json") or "{}")
    editable = source.get("dir_info", {}).get("editable", False)
    root = unquote(urlsplit(source["url"]).path) if editable else str(installed.locate_file(""))
    return installed.version, root, locate_packages()


def import_modules(names: tuple[str, ...]) -> None:
    """Import modules by name.

    Garbage collection is off meanwhile, because it would take a seventh of the time.
    """
    gc.disable()
    try:
        for name in names:
            import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def check_packages(place: str, origins: Mapping[str, str | None], root: Path) -> None:
    """Check that a process imports Parley's packages from `root`.

    Args:
        place: description of the process, for the error.
        origins: result of `locate_packages` in that process.
        root: folder with Parley's packages.

    Raises:
        ConfigError: a package is missing, or comes from elsewhere.
    """
    for name in PACKAGES:
        origin = origins[name]
        if origin is None or Path(origin).resolve() != (root / name / "__init__.py").resolve():
            state = "missing" if origin is None else f"imported from {origin}"
            raise _config_error(
                f"package {name!r} in {place} is {state}, but Parley's is {root / name}. Rename"
                " or move the other package, start from another directory, or remove it from"
                " PYTHONPATH"
            )


def check_worker(
    worker: str, installation: tuple[str | None, str | None, Mapping[str, str | None]]
) -> None:
    """Check that a remote worker has this version of Parley installed and imports it.

    Raises:
        ConfigError: the version differs, or the worker imports other packages.
    """
    version, root, origins = installation
    here = describe_installation()[0]
    if version != here:
        raise _config_error(
            f"Dask worker {worker} has {DISTRIBUTION} {version or '(not installed)'}, but this"
            f" machine has {here or 'a checkout'}. "
            "Install the same wheel on both machines"
        )
    check_packages(f"Dask worker {worker}", origins, Path(root) if root else ROOT)


def _config_error(message: str) -> Exception:
    """Return a ConfigError, even if `schemas` itself cannot be imported."""
    if "schemas.errors" not in sys.modules:
        sys.modules.pop("schemas", None)
        sys.path.insert(0, str(ROOT))
    from schemas.errors import ConfigError

    return ConfigError(message)
