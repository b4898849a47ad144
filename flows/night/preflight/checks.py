"""Checks of sandbox, packages, toolchains and endpoints before a run or build starts."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from flows.night.preflight.missing_packages import require_packages
from flows.night.preflight.served_models import require_same_models
from flows.night.preflight.shared_folder import require_trees_are_met
from flows.orchestration.dask_cluster import ADDRESS_VARIABLE
from sandbox import registry as sandboxes
from sandbox.backends.docker.backend import DockerSandbox
from sandbox.interface import Sandbox
from sandbox.judging.runners.toolchains import required_modules, toolchain_fault
from schemas.errors import ConfigError
from schemas.problem import Problem, SuiteKind
from schemas.run import EmbedderIdentity
from tasks.dialogue.agents.registry import AGENTS
from tasks.language.access import ModelAccess
from tasks.language.providers.contract import Check
from tasks.language.providers.registry import PROVIDERS, is_served_here
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan

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
    """Check the sandbox, packages and endpoints that pending episodes and judgements need.

    Print a warning for each missing toolchain of pending tasks, whose verdicts would be unscored.

    Raises:
        ConfigError: Parley would serve the model on this machine's loopback, but the workers run on
            other machines, or they could not find an agent's files. Or a package that programs
            import is missing, and the sandbox uses this environment's packages.
        SandboxUnavailable: The sandbox or the run's agent needs something that is not installed.
            The message says what to install.
        ModelUnavailable: An endpoint does not answer, or the key or the model's name is wrong. The
            message says what to fix.
    """
    require_trees_are_met(plan)
    if plan.embedder is not None:
        _check_embedder(plan.embedder, in_play=plan.spec.embedder_in_play is not None)
    for identity in (model.identity for model in plan.models):
        if is_served_here(identity.provider) and os.environ.get(ADDRESS_VARIABLE):
            raise ConfigError(
                f"model {identity.label} is served on this machine's loopback, but"
                f" {ADDRESS_VARIABLE}"
                f" sends work to other machines. Unset {ADDRESS_VARIABLE}, or serve the model"
                " yourself and give its address: openai:MODEL@BASE_URL"
            )
    require_same_models(plan)
    pending = plan.pending()
    if pending:
        _check_agent(plan)
    if plan.runs_programs:
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
    if pending:
        _check_endpoints(model.access for model in plan.models)
    elif _has_pending_judgements(plan):
        _check_endpoints(judge.access for judge in plan.judges.values())


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
            asyncio.run(_run_check(check, access))


async def _run_check(check: Check, access: ModelAccess) -> None:
    await check(access, os.environ)


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
