"""Checks before a run, a build or a night starts.

A run or build needs its sandbox, packages, toolchains and endpoints, and some features need a
folder that the driver and all workers share. In the sandboxes of a night, known cheats must fail,
and reference solutions must pass (the canary).
"""

import asyncio
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flows.night.preflight.served_models import require_same_models
from flows.orchestration.dask_cluster import ADDRESS_VARIABLE
from sandbox import registry as sandboxes
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.canary.release import Canary, release_canary
from sandbox.interface import Sandbox
from sandbox.judging.runners.compiled_tests import required_modules, toolchain_fault
from schemas.errors import ConfigError, NightVoid
from schemas.night.budget import Budget
from schemas.outside.secret_names import looks_secret
from schemas.problem import Problem, SuiteKind
from schemas.run import EmbedderIdentity
from tasks.benchmarks.contract import Benchmark
from tasks.dialogue.agents.registry import AGENTS
from tasks.language.access import ModelAccess
from tasks.language.providers.registry import PROVIDERS, is_served_here
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.environment_check import MissingPackages, find_missing_packages
from tasks.planning.plan import RunPlan
from tasks.storage.home import LAKE_VARIABLE, Home

_KINDS: tuple[SuiteKind, ...] = ("java", "javascript")


def toolchain_warnings(sandbox: Sandbox, problems: Iterable[Problem]) -> Iterator[str]:
    """Yield one line per missing toolchain, with the number of tasks that stay unscored without it.

    A missing toolchain stops no run: tasks in other languages are scored.

    Raises:
        SandboxUnavailable: The sandbox does not run.
    """
    needs = Counter(need for problem in problems for need in _needs(problem))
    for kind in _KINDS:
        by_modules = {modules: n for (of_kind, modules), n in needs.items() if of_kind == kind}
        faults: Counter[str] = Counter()
        for modules, n in by_modules.items():
            if fault := toolchain_fault(sandbox, kind, modules):
                faults[fault] += n
        for fault, n in faults.items():
            yield (
                f"{n} of the {sum(needs.values())} pending tasks will be unscored"
                f" (toolchain_missing): {fault}"
            )


def _needs(problem: Problem) -> Iterator[tuple[SuiteKind | None, frozenset[str]]]:
    """Yield the toolchain of a task with its modules. Python tasks yield None as toolchain."""
    suites = [i.suite for i in problem.instructions if i.suite.kind in _KINDS]
    tests = [test for suite in suites if suite.kind == "javascript" for test in suite.tests]
    modules = frozenset(name for test in tests for name in required_modules(test))
    yield (suites[0].kind if suites else None), modules


def preflight(plan: RunPlan) -> None:
    """Check this machine, and the endpoints that pending episodes and judgements need.

    Raises:
        ConfigError, SandboxUnavailable: See `check_machine`.
        ModelUnavailable: An endpoint does not answer, or the key or the model's name is wrong. The
            message says what to fix.
    """
    if plan.embedder is not None:
        _check_embedder(plan.embedder, in_play=plan.spec.embedder_in_play is not None)
    check_machine(plan)
    require_same_models(plan)
    if plan.pending():
        _check_endpoints(model.access for model in plan.models)
    elif _has_pending_judgements(plan):
        _check_endpoints(judge.access for judge in plan.judges.values())


def check_machine(plan: RunPlan) -> None:
    """Check the agent, sandbox, packages and certificates that a run needs, but no endpoint.

    Print a warning for each missing toolchain of pending tasks, whose verdicts would be unscored.

    Raises:
        ConfigError: Parley would serve the model on this machine's loopback, but the workers run on
            other machines, or they could not find an agent's files. Or a package that programs
            import is missing, and the sandbox uses this environment's packages.
        SandboxUnavailable: The sandbox or the run's agent needs something that is not installed.
            The message says what to install.
    """
    require_trees_are_met(plan)
    for identity in (model.identity for model in plan.models):
        if is_served_here(identity.provider) and os.environ.get(ADDRESS_VARIABLE):
            raise ConfigError(
                f"model {identity.label} is served on this machine's loopback, but"
                f" {ADDRESS_VARIABLE}"
                f" sends work to other machines. Unset {ADDRESS_VARIABLE}, or serve the model"
                " yourself and give its address: openai:MODEL@BASE_URL"
            )
    for ca_file in {model.access.endpoint.ca_file for model in plan.models} - {None}:
        from tasks.language.endpoints.endpoint_pool import trusted_by

        trusted_by(ca_file)
    pending = plan.pending()
    if pending:
        _check_agent(plan)
    if not plan.runs_programs:
        return
    sandbox = DockerSandbox() if plan.images else sandboxes.load(plan.spec.sandbox)
    if isinstance(sandbox, DockerSandbox) and plan.images:
        _check_images(sandbox, plan.images)
    else:
        sandbox.check()
    problems = [plan.problems[name] for name in pending.problem_ids]
    if getattr(sandbox, "has_host_packages", False):
        require_packages(plan.benchmark, plan.spec.dataset_version, problems)
    if not plan.images:
        for line in toolchain_warnings(sandbox, problems):
            print(line, file=sys.stderr)


def _check_images(sandbox: DockerSandbox, images: Sequence[str]) -> None:
    """Run a program in the first image that is on this machine.

    The others are pulled when their episodes begin.
    """
    sandbox.check_daemon()
    here = next((image for image in images if sandbox.has_image(image)), None)
    if here is not None:
        sandbox.with_image(here).check()


def _check_agent(plan: RunPlan) -> None:
    """Check the programs that the run's agent needs on this machine.

    Workers on other machines check them when a dialogue begins.

    Raises:
        SandboxUnavailable: A program is missing. The message names the remedy.
    """
    identity = plan.spec.agent
    if identity is None or os.environ.get(ADDRESS_VARIABLE):
        return
    agent = AGENTS.load(identity.name)
    if agent.check is not None:
        agent.check(agent.options_of(identity))


def _has_pending_judgements(plan: RunPlan) -> bool:
    if not plan.judges:
        return False
    from tasks.driver.judging import pending_judgements

    return bool(pending_judgements(plan))


def preflight_build(plan: BuildPlan) -> None:
    """Check a build's endpoints, embedder and sandbox. A build runs in the driver, on this machine.

    Raises:
        SandboxUnavailable, ModelUnavailable: See `preflight`.
    """
    if plan.construction.runs_programs:
        plan.sandbox.check()
    if plan.embedder is not None:
        _check_embedder(plan.embedder, in_play=False)
    _check_endpoints(model.access for model in plan.models)


def _check_endpoints(accesses: Iterable[ModelAccess]) -> None:
    """Check the models. Of several accesses to one model, the last one is checked."""
    for access in {access.identity: access for access in accesses}.values():
        check = PROVIDERS.load(access.identity.provider).check
        if check is not None:
            asyncio.run(check(access, os.environ))


def _check_embedder(access: ModelAccess[EmbedderIdentity], *, in_play: bool) -> None:
    from tasks.language.embedding import check_embedder

    identity = access.identity
    if identity.is_hosted:
        asyncio.run(check_embedder(access, os.environ))
    elif in_play and os.environ.get(ADDRESS_VARIABLE):
        raise ConfigError(
            f"embedder {identity.label} is served on this machine's loopback, but"
            f" {ADDRESS_VARIABLE}"
            f" sends the dialogues that use it to other machines. Unset {ADDRESS_VARIABLE}, or"
            " serve the embedder yourself and pass --embedder openai:MODEL@BASE_URL"
        )


def require_packages(
    benchmark: Benchmark, dataset_version: str, problems: Iterable[Problem]
) -> None:
    """Check that the packages that programs of these problems import are installed.

    Raises:
        ConfigError: A package is missing. The message names the packages, the number of tasks that
            need them, and the command that installs them.
    """
    packages = {problem.problem_id: problem.packages for problem in problems}
    missing = find_missing_packages(benchmark, dataset_version, packages)
    if not missing.tasks_by_package:
        return
    raise ConfigError(
        f"{len(missing.problem_ids)} of the {missing.n_tasks} pending tasks import packages that"
        f" are not installed, so every answer to them would fail: {missing.counts}."
        f" {_package_remedy(benchmark, dataset_version, missing)}. Or skip these tasks with"
        " --skip-missing-packages"
    )


def _package_remedy(benchmark: Benchmark, dataset_version: str, missing: MissingPackages) -> str:
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


_STORE_PREFIXES = ("AWS_", "FSSPEC_", "AZURE_", "GOOGLE_")


def store_secrets(home: Home, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the names of the secret variables that local workers need for the lake's store."""
    if not home.is_store:
        return ()
    return tuple(
        name for name in environ if name.startswith(_STORE_PREFIXES) and looks_secret(name)
    )


def require_budget_is_counted(home: Home, budget: Budget | None) -> None:
    """Reject a budget if workers on other machines could not record what they spend.

    Raises:
        ConfigError: The workers share no folder. The message names the remedy.
    """
    if budget is not None and _shares_no_folder(home):
        raise ConfigError(
            f"a budget needs a folder that all processes of a night share. {_folder_remedy(home)},"
            " or remove the budget"
        )


def require_shared_call_log(home: Home) -> None:
    """Reject metrics of model calls if driver and workers share no folder for the call log.

    Raises:
        ConfigError: The workers share no folder. The message names the remedy.
    """
    if _shares_no_folder(home):
        raise ConfigError(
            "metrics of model calls need a folder that all processes of a night share."
            f" {_folder_remedy(home)}, or remove `telemetry` and the variable"
            " OTEL_EXPORTER_OTLP_ENDPOINT"
        )


def require_trees_are_met(plan: RunPlan) -> None:
    """Reject an agent if a worker could not find the files that the agent edited on another worker.

    Raises:
        ConfigError: The workers share no folder. The message names the remedy.
    """
    if plan.spec.agent is not None and _shares_no_folder(plan.home):
        raise ConfigError(
            f"agent {plan.spec.agent.name!r} needs a working folder that all workers share."
            f" {_folder_remedy(plan.home)}"
        )


def _shares_no_folder(home: Home) -> bool:
    return home.is_store and bool(os.environ.get(ADDRESS_VARIABLE))


def _folder_remedy(home: Home) -> str:
    return (
        f"With {LAKE_VARIABLE}={home.lake_at} and"
        f" {ADDRESS_VARIABLE}={os.environ.get(ADDRESS_VARIABLE)} no folder is shared. Unset"
        f" {LAKE_VARIABLE} and set PARLEY_HOME to a folder that all machines share, or unset"
        f" {ADDRESS_VARIABLE} to use this machine"
    )


def require_live_canary(names: Iterable[str]) -> tuple[str, ...]:
    """Run the canary in each sandbox of a night. Return one line per sandbox.

    Args:
        names: Names of the sandboxes in the requests.

    Raises:
        NightVoid: A cheat passed, or a reference solution failed. The message names them. Nothing
            was started or paid for.
        SandboxUnavailable: A sandbox cannot run programs here.
        UnknownName: No sandbox has this name.
    """
    return tuple(_canary_line(name) for name in sorted(set(names)))


def _canary_line(name: str) -> str:
    started = time.monotonic()
    canary = release_canary(sandboxes.load(name))
    if not canary.is_alive:
        raise NightVoid(_void_message(name, canary))
    took_s = time.monotonic() - started
    return (
        f"canary in sandbox {name}: {canary.n_attacks} attacks blocked,"
        f" {canary.n_golds} reference solutions passed, {took_s:.1f} s"
    )


def _void_message(name: str, canary: Canary) -> str:
    faults: list[str] = []
    if canary.passed:
        faults.append(f"attacks that passed: {'; '.join(canary.passed)}")
    if canary.failed:
        faults.append(f"reference solutions that failed: {'; '.join(canary.failed)}")
    return (
        f"the night was not started: in sandbox {name!r} {', and '.join(faults)}. Its verdicts"
        " could not be trusted. Nothing was paid for. Run `parley doctor` for details, or name"
        " another sandbox in the configuration"
    )
