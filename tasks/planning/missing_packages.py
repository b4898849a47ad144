"""Finds the tasks whose programs import packages that are not installed where the programs run."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import distributions

from sandbox import registry as sandboxes
from sandbox.host.python_environment import package_folders
from schemas.errors import ConfigError
from schemas.problem import Problem
from schemas.run import RunSpec
from tasks.benchmarks.contract import Benchmark


@dataclass(frozen=True)
class MissingPackages:
    """Packages that tasks need and that are not installed."""

    tasks_by_package: Mapping[str, int]
    """Missing package -> number of tasks that need it, most tasks first."""
    problem_ids: frozenset[str]
    """Tasks that need at least one of them."""
    n_tasks: int
    """Number of tasks that were looked at."""


def find_missing_packages(
    benchmark: Benchmark, dataset_version: str, problems: Iterable[Problem]
) -> MissingPackages:
    """Look for the packages of these problems where their programs find them.

    Programs find the environment of the dataset version where one is installed, else the packages beside Parley.
    """
    folders = benchmark.programs.package_folders(dataset_version) or package_folders()
    modules = benchmark.programs.modules
    is_installed = _lookup(tuple(folders), tuple(sorted(modules.items())))
    listed = list(problems)
    missing = {
        p.problem_id: [name for name in p.packages if not is_installed(name)] for p in listed
    }
    counts = Counter(name for names in missing.values() for name in names)
    ranked = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return MissingPackages(
        ranked, frozenset(name for name, gone in missing.items() if gone), len(listed)
    )


@cache
def _lookup(
    folders: tuple[str, ...], modules: tuple[tuple[str, str], ...]
) -> Callable[[str], bool]:
    names = dict(modules)

    @cache
    def is_installed(package: str) -> bool:
        if any(True for _ in distributions(name=package, path=list(folders))):
            return True
        return (
            PathFinder.find_spec(names.get(package, package.replace("-", "_")), folders) is not None
        )

    return is_installed


def skipped_problems(
    benchmark: Benchmark, spec: RunSpec, problems: Iterable[Problem]
) -> MissingPackages | None:
    """Find the problems that a run leaves out by `--skip-missing-packages`; None where all packages are installed.

    Raises:
        ConfigError: the sandbox's packages are not known here, or no problem has all of its packages.
    """
    if not getattr(sandboxes.load(spec.sandbox), "has_host_packages", False):
        raise ConfigError(
            f"skip_missing_packages: programs of the sandbox {spec.sandbox} find the packages of its image, which Parley does"
            " not know. Leave --skip-missing-packages out, or choose --sandbox zygote or bubblewrap"
        )
    missing = find_missing_packages(benchmark, spec.dataset_version, problems)
    if missing.n_tasks and len(missing.problem_ids) == missing.n_tasks:
        named = ", ".join(missing.tasks_by_package)
        raise ConfigError(
            f"skip_missing_packages: each of the {missing.n_tasks} tasks imports a missing package ({named})"
        )
    return missing if missing.problem_ids else None
