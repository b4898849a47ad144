"""Checks of the environment of a benchmark's programs, before any request to a model.

`with_environments_checked` runs the own tests of each source tree. If they fail although the tree
contains no answer, packages are missing or have other versions than the code needs. Every answer
would fail there, so no model is asked: the episodes are `environment_missing`.
`find_missing_packages` finds the packages that tasks import and that are not installed.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path

from sandbox import registry as sandboxes
from sandbox.host.python_environment import package_folders
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import RepositoryProgram
from sandbox.judging.runners.run import RUNNER_VERSION, run_tests
from schemas.content_id import content_id
from schemas.dialog import Dialog
from schemas.errors import ConfigError, SandboxUnavailable
from schemas.grouping import grouped
from schemas.run import Limits, RunSpec
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.contract import Benchmark, Staged
from tasks.dialogue.tools import Place, WantedProgram
from tasks.storage.files.source_trees import TreeDigests, tree_files
from tasks.storage.home import Home
from tasks.storage.new_folder import replace_file

_AT_ONCE = 2
_LONGEST_FAULT = 4000
_PLAIN_NAME = "parley_environment_check.py"
_PLAIN_RUN = """
import os, sys
sys.path[:0] = [os.path.abspath(folder) for folder in {folders!r}]
import pytest
sys.exit(pytest.main({arguments!r}))
"""
_PLAIN_ARGUMENTS = ("-pno:cacheprovider", "-oaddopts=", "-q", "--no-header", "--tb=short")


def with_environments_checked(
    benchmark: Benchmark,
    staged: Staged,
    resources: Mapping[str, str],
    home: Home,
    sandbox_name: str,
) -> Staged:
    """Mark the dialogs whose tree fails its own tests in this sandbox.

    Each result is stored in the home and reused. A dialog is not marked if a test reaches its time
    limit, or if the sandbox does not run on this machine.
    """
    self_test = benchmark.resources.self_test
    if self_test is None:
        return staged
    problems = {problem.problem_id: problem for problem in staged.problems}
    programs = [
        None
        if dialog.tree is None or dialog.is_sourceless
        else self_test(problems[dialog.problem_id], dialog)
        for dialog in staged.dialogs
    ]
    if not any(programs):
        return staged
    sandbox = benchmark.programs.load_sandbox(sandbox_name, staged.dialogs[0].dataset_version)
    check = partial(_fault, sandbox, _fingerprint(sandbox), resources, home)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        faults = list(threads.map(lambda program: check(program) if program else None, programs))
    marked = (
        dialog.without_environment(fault) if fault else dialog
        for dialog, fault in zip(staged.dialogs, faults, strict=True)
    )
    return replace(staged, dialogs=marked)


def environment_lines(dialogs: Sequence[Dialog]) -> tuple[str, ...]:
    """Return a line for each fault of an environment, with the problems that it affects."""
    by_fault = grouped(
        (_summary(dialog.environment_fault), dialog.problem_id)
        for dialog in dialogs
        if dialog.environment_fault
    )
    return tuple(
        f"environment_missing: {len(names)} {'task' if len(names) == 1 else 'tasks'} "
        f"({', '.join(names)}): {fault}"
        for fault, names in by_fault.items()
    )


def _summary(fault: str) -> str:
    """Return the last line of a report that pytest marks with E, or else the report's last line."""
    lines = [line.strip() for line in fault.splitlines() if line.strip()]
    marked = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return (marked or lines or [fault])[-1]


def _fingerprint(sandbox: Sandbox) -> str | None:
    """Return the sandbox's fingerprint.

    None if the sandbox does not run on this machine, which preflight reports.
    """
    try:
        sandbox.check()
        return sandbox.fingerprint()
    except SandboxUnavailable:
        return None


def _fault(
    sandbox: Sandbox,
    fingerprint: str | None,
    resources: Mapping[str, str],
    home: Home,
    program: WantedProgram,
) -> str | None:
    """Return the failure report of a tree's own tests; None if they pass or cannot run."""
    place = program.place
    if fingerprint is None or place is None or place.tree.resource not in resources:
        return None
    limits = place.limits or Limits()
    key = content_id([RUNNER_VERSION, fingerprint, place.tree.name, program.tests, limits])
    record = home.path / "environment_checks" / f"{key}.json"
    if record.is_file():
        return json.loads(record.read_text(encoding="utf-8"))["fault"] or None
    try:
        own_tests = _own_tests(program, place, Path(resources[place.tree.resource]))
        verdict = run_tests(sandbox, own_tests, limits)
        if verdict.outcome is Outcome.TIMEOUT:
            return None
        fault = (
            ""
            if verdict.outcome is Outcome.PASSED
            else _report(sandbox, own_tests, verdict, limits)
        )
    except (SandboxUnavailable, OSError):
        return None
    record.parent.mkdir(parents=True, exist_ok=True)
    replace_file(record, json.dumps({"fault": fault}).encode())
    return fault or None


def _own_tests(program: WantedProgram, place: Place, root: Path) -> RepositoryProgram:
    """Return a program that runs the tree's own tests in the unchanged tree."""
    placing = place.placing
    environment = placing.environment if placing else ""
    digests = TreeDigests(place.tree.digest, place.tree.packages)
    return RepositoryProgram(
        files=tuple(sorted(tree_files(root / place.tree.folder, digests, environment).items())),
        node_ids=program.tests,
        folders=placing.folders if placing else (),
        environment=environment,
    )


def _report(
    sandbox: Sandbox, program: RepositoryProgram, verdict: ProgramVerdict, limits: Limits
) -> str:
    """Run pytest once more, and return its report.

    The verdict does not mention files that pytest cannot collect. The report does.
    """
    failures = [case for case in verdict.cases if case.outcome is not Outcome.PASSED]
    text = f"{failures[0].name}\n{failures[0].detail}" if failures else verdict.detail
    folders = [folder for folder in (program.environment, ".", *program.folders) if folder]
    plain = _PLAIN_RUN.format(folders=folders, arguments=[*_PLAIN_ARGUMENTS, *program.node_ids])
    with sandbox.session(limits) as session:
        result = session.run(
            ("{python}", _PLAIN_NAME), files={**dict(program.files), _PLAIN_NAME: plain.encode()}
        )
    if result.exit_code:
        text = (result.stdout + result.stderr).decode(errors="replace")
    return text[-_LONGEST_FAULT:] or "the tests did not pass"


_SHOWN = 8


@dataclass(frozen=True)
class MissingPackages:
    """Missing packages and the tasks that need them."""

    tasks_by_package: Mapping[str, int]
    """Number of tasks that need each missing package, largest number first."""
    problem_ids: frozenset[str]
    """Tasks that need at least one missing package."""
    n_tasks: int
    """Number of tasks that were checked."""

    @property
    def counts(self) -> str:
        """First missing packages, each with its number of tasks."""
        counts = [f"{package} ({n})" for package, n in self.tasks_by_package.items()]
        more = f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
        return f"{', '.join(counts[:_SHOWN])}{more}"

    @property
    def skipped_line(self) -> str:
        """Line with the number of skipped tasks and the missing packages."""
        return (
            f"skipped {len(self.problem_ids)} of {self.n_tasks} tasks, because they import"
            f" packages that are not installed: {self.counts}"
        )


def find_missing_packages(
    benchmark: Benchmark, dataset_version: str, packages: Mapping[str, Sequence[str]]
) -> MissingPackages:
    """Find the packages that programs need and cannot import.

    Programs see the environment of the dataset version if one is installed, and otherwise the
    packages of Parley's own environment.

    Args:
        benchmark: benchmark of the problems.
        dataset_version: version of the dataset.
        packages: maps each problem to the packages that its programs need.
    """
    folders = benchmark.programs.package_folders(dataset_version) or package_folders()
    modules = benchmark.programs.modules
    is_installed = _lookup(tuple(folders), tuple(sorted(modules.items())))
    missing = {
        problem: [name for name in names if not is_installed(name)]
        for problem, names in packages.items()
    }
    counts = Counter(name for names in missing.values() for name in names)
    ranked = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return MissingPackages(
        ranked, frozenset(problem for problem, names in missing.items() if names), len(packages)
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
    benchmark: Benchmark, spec: RunSpec, packages: Mapping[str, Sequence[str]]
) -> MissingPackages | None:
    """Find the problems that `--skip-missing-packages` leaves out. None if no package is missing.

    `packages` maps each problem to the packages that its programs need.

    Raises:
        ConfigError: Parley cannot see the sandbox's packages, or each problem lacks a package.
    """
    if not getattr(sandboxes.load(spec.sandbox), "has_host_packages", False):
        raise ConfigError(
            f"skip_missing_packages: the sandbox {spec.sandbox} has the packages of its image, "
            "which Parley cannot see. Remove --skip-missing-packages, or use --sandbox zygote or "
            "--sandbox bubblewrap"
        )
    missing = find_missing_packages(benchmark, spec.dataset_version, packages)
    if missing.n_tasks and len(missing.problem_ids) == missing.n_tasks:
        named = ", ".join(missing.tasks_by_package)
        raise ConfigError(
            f"skip_missing_packages: each of the {missing.n_tasks} tasks imports a missing package "
            f"({named}). Install the packages"
        )
    return missing if missing.problem_ids else None
