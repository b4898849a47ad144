"""Checks that `tasks`, `flows` and the others are Parley's own: people have files of these names, and may start beside them.

Standard library only: functions of this module are sent to Dask workers as code, because there even `flows` may be another's.
"""

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
        ConfigError: names the path that is in the way.
    """
    judge_packages("this process", locate_packages(), ROOT)


def locate_packages() -> dict[str, str | None]:
    """Package -> the file that importing it runs in this process."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            spec = find_spec(name)
        except ValueError:
            spec = None
        found[name] = spec.origin if spec else None
    return found


def describe_installation() -> tuple[str | None, str | None, dict[str, str | None]]:
    """Version and root of the installed distribution, and the places where the packages' names lead."""
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None, None, locate_packages()
    source = json.loads(installed.read_text("direct_url.json") or "{}")
    editable = source.get("dir_info", {}).get("editable", False)
    root = unquote(urlsplit(source["url"]).path) if editable else str(installed.locate_file(""))
    return installed.version, root, locate_packages()


def import_modules(names: tuple[str, ...]) -> None:
    """Import them all."""
    for name in names:
        import_module(name)


def judge_packages(place: str, found: Mapping[str, str | None], root: Path) -> None:
    """Raise a ConfigError unless all that was `found` in `place` lies under `root`."""
    for name in PACKAGES:
        origin = found[name]
        if origin is None or Path(origin).resolve() != (root / name / "__init__.py").resolve():
            instead = "not found" if origin is None else f"found at {origin}"
            raise _config_error(
                f"package {name!r} in {place} is {instead}, but Parley's is {root / name}. Rename or move what is in the way, "
                "start from another directory, or take it off PYTHONPATH"
            )


def judge_worker(
    worker: str, there: tuple[str | None, str | None, Mapping[str, str | None]]
) -> None:
    """Raise a ConfigError unless a worker elsewhere has this version installed and imports it."""
    version, root, found = there
    here = describe_installation()[0]
    if version != here:
        raise _config_error(
            f"Dask worker {worker} has {DISTRIBUTION} {version or '(not installed)'}, but this is {here or 'a checkout'}; "
            "install the same wheel on both"
        )
    judge_packages(f"Dask worker {worker}", found, Path(root) if root else ROOT)


def _config_error(message: str) -> Exception:
    """A ConfigError, also where `schemas` itself cannot be imported."""
    if "schemas.errors" not in sys.modules:
        sys.modules.pop("schemas", None)
        sys.path.insert(0, str(ROOT))
    from schemas.errors import ConfigError

    return ConfigError(message)
