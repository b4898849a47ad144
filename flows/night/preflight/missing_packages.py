"""Check for packages that programs import.

Without these packages every answer would fail, and count against the model.
"""

import shlex
from collections.abc import Iterable

from schemas.errors import ConfigError
from schemas.problem import Problem
from tasks.benchmarks.contract import Benchmark
from tasks.planning.environment_check import MissingPackages, find_missing_packages

_SHOWN = 8


def require_packages(
    benchmark: Benchmark, dataset_version: str, problems: Iterable[Problem]
) -> None:
    """Check that the packages that programs of these problems import are installed.

    Raises:
        ConfigError: A package is missing. The message names the packages, the number of tasks that
            need them, and the command that installs them.
    """
    missing = find_missing_packages(benchmark, dataset_version, problems)
    if not missing.tasks_by_package:
        return
    raise ConfigError(
        f"{len(missing.problem_ids)} of the {missing.n_tasks} pending tasks import packages that"
        f" are not installed, so every answer to them would fail: {_package_counts(missing)}."
        f" {_remedy(benchmark, dataset_version, missing)}. Or skip these tasks with"
        " --skip-missing-packages"
    )


def skipped_line(missing: MissingPackages) -> str:
    """Return a line with the number of skipped tasks and the missing packages."""
    return (
        f"skipped {len(missing.problem_ids)} of {missing.n_tasks} tasks, because they import"
        f" packages that are not installed: {_package_counts(missing)}"
    )


def _remedy(benchmark: Benchmark, dataset_version: str, missing: MissingPackages) -> str:
    names = shlex.join(sorted(missing.tasks_by_package))
    if folders := benchmark.programs.package_folders(dataset_version):
        return (
            "Install them in the benchmark's package folder:"
            f" pip install --target {shlex.quote(folders[0])} {names}"
        )
    environment = benchmark.programs.environments.get(dataset_version)
    instruction = (
        f"Run `make {environment}`, which installs all packages of these tasks, or install"
        if environment
        else "Install"
    )
    return f"{instruction} them in Parley's environment: pip install {names}"


def _package_counts(missing: MissingPackages) -> str:
    counts = [f"{package} ({n})" for package, n in missing.tasks_by_package.items()]
    more = f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
    return f"{', '.join(counts[:_SHOWN])}{more}"
