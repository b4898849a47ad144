"""Checks that packages which programs import are installed. Without them every answer would fail, and count as the model's."""

import shlex
from collections.abc import Iterable

from schemas.errors import ConfigError
from schemas.problem import Problem
from tasks.benchmarks.contract import Benchmark
from tasks.planning.missing_packages import MissingPackages, find_missing_packages

_SHOWN = 8


def require_packages(
    benchmark: Benchmark, dataset_version: str, problems: Iterable[Problem]
) -> None:
    """Check that programs of these problems find their packages.

    Raises:
        ConfigError: names the missing packages, the number of tasks that need them, and the command to install them.
    """
    missing = find_missing_packages(benchmark, dataset_version, problems)
    if not missing.tasks_by_package:
        return
    raise ConfigError(
        f"{len(missing.problem_ids)} of the {missing.n_tasks} tasks that are owed import packages that are not installed, so"
        f" every answer to them would fail: {_named(missing)}. {_remedy(benchmark, dataset_version, missing)}. Or run the other"
        " tasks alone: --skip-missing-packages"
    )


def skipped_line(missing: MissingPackages) -> str:
    """Say how many tasks a run leaves out, and for which packages."""
    return (
        f"skipped {len(missing.problem_ids)} of {missing.n_tasks} tasks, which import packages that are not installed:"
        f" {_named(missing)}"
    )


def _remedy(benchmark: Benchmark, dataset_version: str, missing: MissingPackages) -> str:
    names = shlex.join(sorted(missing.tasks_by_package))
    if folders := benchmark.programs.package_folders(dataset_version):
        return f"Install them beside the others: pip install --target {shlex.quote(folders[0])} {names}"
    environment = benchmark.programs.environments.get(dataset_version)
    made = (
        f"Type `make {environment}`, which installs all that these tasks import, or install"
        if environment
        else "Install"
    )
    return f"{made} them beside Parley: pip install {names}"


def _named(missing: MissingPackages) -> str:
    named = [f"{package} ({n})" for package, n in missing.tasks_by_package.items()]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return f"{', '.join(named[:_SHOWN])}{more}"
