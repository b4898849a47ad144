"""Tasks whose programs import packages that the sandbox lacks."""

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
    """Missing packages and the tasks that need them."""

    tasks_by_package: Mapping[str, int]
    """Number of tasks that need each missing package, largest number first."""
    problem_ids: frozenset[str]
    """Tasks that need at least one missing package."""
    n_tasks: int
    """Number of tasks that were checked."""


def find_missing_packages(
    benchmark: Benchmark, dataset_version: str, problems: Iterable[Problem]
) -> MissingPackages:
    """Find the packages of these problems that their programs cannot import.

    Programs see the environment of the dataset version if one is installed, and otherwise the
    packages of Parley's own environment.
    """
    folders = benchmark.programs.package_folders(dataset_version) or package_folders()
    modules = benchmark.programs.modules
    is_installed = _lookup(tuple(folders), tuple(sorted(modules.items())))
    problems = list(problems)
    missing = {
        p.problem_id: [name for name in p.packages if not is_installed(name)] for p in problems
    }
    counts = Counter(name for names in missing.values() for name in names)
    ranked = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return MissingPackages(
        ranked, frozenset(name for name, packages in missing.items() if packages), len(problems)
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


def find_skipped_problems(
    benchmark: Benchmark, spec: RunSpec, problems: Iterable[Problem]
) -> MissingPackages | None:
    """Find the problems that `--skip-missing-packages` leaves out. None if no package is missing.

    Raises:
        ConfigError: Parley cannot see the sandbox's packages, or each problem lacks a package.
    """
    if not getattr(sandboxes.load(spec.sandbox), "has_host_packages", False):
        raise ConfigError(
            f"skip_missing_packages: the sandbox {spec.sandbox} has the packages of its image, "
            "which Parley cannot see. Remove --skip-missing-packages, or use --sandbox zygote or "
            "--sandbox bubblewrap"
        )
    missing = find_missing_packages(benchmark, spec.dataset_version, problems)
    if missing.n_tasks and len(missing.problem_ids) == missing.n_tasks:
        named = ", ".join(missing.tasks_by_package)
        raise ConfigError(
            f"skip_missing_packages: each of the {missing.n_tasks} tasks imports a missing package "
            f"({named}). Install the packages"
        )
    return missing if missing.problem_ids else None
