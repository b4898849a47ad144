"""Checks that packages which programs import are installed. Without them every answer would fail, and count as the model's."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.machinery import PathFinder
from importlib.metadata import distributions

from sandbox.host.python_environment import package_folders
from schemas.errors import ConfigError
from schemas.problem import Problem
from tasks.benchmarks.contract import Benchmark

_SHOWN = 8


def require_packages(benchmark: Benchmark, problems: Iterable[Problem]) -> None:
    """Check that programs of these problems find their packages beside the Python that runs Parley.

    Raises:
        ConfigError: names the missing packages, the number of tasks that need them, and the command to install them.
    """
    needs = [frozenset(problem.packages) for problem in problems]
    asked = Counter(package for packages in needs for package in packages)
    missing = {package: n for package, n in sorted(asked.items()) if not _is_installed(package, benchmark.programs.modules)}
    if not missing:
        return
    n_tasks = sum(not packages.isdisjoint(missing) for packages in needs)
    named = [f"{package} ({n})" for package, n in sorted(missing.items(), key=lambda item: -item[1])]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    raise ConfigError(
        f"{n_tasks} of the {len(needs)} tasks that are owed import packages that are not installed, so every answer to them would"
        f" fail: {', '.join(named[:_SHOWN])}{more}. Install them beside Parley: pip install {shlex.join(missing)}."
        " Or leave those tasks out of the data"
    )


def _is_installed(package: str, modules: Mapping[str, str]) -> bool:
    folders = list(package_folders())
    if any(True for _ in distributions(name=package, path=folders)):
        return True
    return PathFinder.find_spec(modules.get(package, package.replace("-", "_")), folders) is not None
