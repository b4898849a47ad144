"""Checks sandbox, packages and endpoints before anything is started."""

import asyncio
import os
import sys
from collections.abc import Mapping

from flows.night.before.beyond import require_trees_are_met
from flows.night.before.missing_packages import require_packages
from flows.night.before.toolchains import toolchain_warnings
from flows.orchestration.dask_cluster import ADDRESS_VARIABLE
from sandbox import registry as sandboxes
from sandbox.backends.docker.backend import DockerSandbox
from schemas.embedding import EmbedderIdentity
from schemas.errors import ConfigError
from schemas.run import ModelEndpoint, ModelIdentity, Provider
from tasks.planning.builds.build_plan import BuildPlan
from tasks.planning.plan import RunPlan

SERVED_HERE = (Provider.EMBEDDED, Provider.VLLM)
"""Models that Parley serves itself, on this machine's loopback."""


def preflight(plan: RunPlan) -> None:
    """Check sandbox, packages and endpoints where episodes are owed, and the judges' endpoints where judgements are.

    Print a warning for each toolchain that pending tasks need and that is missing: their verdicts would be unscored.

    Raises:
        ConfigError: the model would be served on this machine's loopback, and the workers are elsewhere. Or an agent's trees
            could not be met there. Or a package that programs import is missing, where the sandbox offers ours.
        SandboxUnavailable: with what to install.
        ModelUnavailable: a dead endpoint, a wrong key or model name, with what to mend.
    """
    require_trees_are_met(plan)
    asked = {identity: endpoint for identity, endpoint, _ in plan.models}
    if plan.spec.embedder is not None and plan.embedder is not None:
        _check_embedder(plan.spec.embedder, plan.embedder, in_play=plan.spec.embedder_in_play is not None)
    for identity in asked:
        if identity.provider in SERVED_HERE and os.environ.get(ADDRESS_VARIABLE):
            raise ConfigError(
                f"model {identity.label} is served on this machine's loopback, but {ADDRESS_VARIABLE} sends work elsewhere."
                f" Unset {ADDRESS_VARIABLE}, or serve the model yourself and give its address: openai:MODEL@BASE_URL"
            )
    owed = plan.owed()
    if plan.runs_programs:
        sandbox = DockerSandbox(image=plan.images[0]) if plan.images else sandboxes.load(plan.spec.sandbox)
        sandbox.check()
        pending = [plan.problems[name] for name in dict.fromkeys(wanted.dialog.problem_id for wanted in owed)]
        if getattr(sandbox, "has_host_packages", False):
            require_packages(plan.benchmark, pending)
        if not plan.images:
            for line in toolchain_warnings(sandbox, pending):
                print(line, file=sys.stderr)
    if owed:
        _check_endpoints(asked)
    elif _judges_are_asked(plan):
        _check_endpoints({judge.judge.judge: judge.endpoint for judge in plan.judges.values()})


def _judges_are_asked(plan: RunPlan) -> bool:
    if not plan.judges:
        return False
    from tasks.driver.judgements_owed import owed_judgements

    return bool(owed_judgements(plan))


def preflight_build(plan: BuildPlan) -> None:
    """Check what a build asks: its endpoints, its embedder, its sandbox. All of it works in the driver, on this machine.

    Raises:
        SandboxUnavailable, ModelUnavailable: as `preflight`.
    """
    if plan.construction.runs_programs:
        plan.sandbox.check()
    if plan.spec.embedder is not None and plan.embedder is not None:
        _check_embedder(plan.spec.embedder, plan.embedder, in_play=False)
    _check_endpoints({identity: endpoint for identity, endpoint, _ in plan.models})


def _check_endpoints(asked: Mapping[ModelIdentity, ModelEndpoint]) -> None:
    for identity, endpoint in asked.items():
        if identity.provider is Provider.OPENAI:
            from tasks.language.opening import check_endpoint

            asyncio.run(check_endpoint(identity, endpoint, os.environ))


def _check_embedder(identity: EmbedderIdentity, endpoint: ModelEndpoint, *, in_play: bool) -> None:
    from tasks.language.embedding import check_embedder

    if identity.provider == "openai":
        asyncio.run(check_embedder(identity, endpoint, os.environ))
    elif in_play and os.environ.get(ADDRESS_VARIABLE):
        raise ConfigError(
            f"embedder {identity.label} is served on this machine's loopback, but {ADDRESS_VARIABLE} sends the dialogues that ask"
            f" it elsewhere. Unset {ADDRESS_VARIABLE}, or serve it yourself and name it by --embedder openai:MODEL@BASE_URL"
        )
