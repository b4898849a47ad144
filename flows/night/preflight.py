"""Checks sandbox, packages and endpoints before anything is started."""

import asyncio
import os

from flows.night.missing_packages import require_packages
from flows.orchestration.dask_cluster import ADDRESS_VARIABLE
from sandbox import registry as sandboxes
from schemas.errors import ConfigError
from schemas.run import Provider
from tasks.planning.plan import RunPlan

SERVED_HERE = (Provider.EMBEDDED, Provider.VLLM)
"""Models that Parley serves itself, on this machine's loopback."""


def preflight(plan: RunPlan) -> None:
    """Check sandbox, and packages and endpoints where episodes are owed.

    Raises:
        ConfigError: the model would be served on this machine's loopback, and the workers are elsewhere. Or a package that
            programs import is missing, where the sandbox offers this machine's packages.
        SandboxUnavailable: with what to install.
        ModelUnavailable: a dead endpoint, a wrong key or model name, with what to mend.
    """
    models = ((plan.spec.subject, plan.subject), (plan.spec.simulator, plan.simulator))
    asked = {identity: endpoint for identity, endpoint in models if identity is not None and endpoint is not None}
    for identity in asked:
        if identity.provider in SERVED_HERE and os.environ.get(ADDRESS_VARIABLE):
            raise ConfigError(
                f"model {identity.label} is served on this machine's loopback, but {ADDRESS_VARIABLE} sends work elsewhere."
                f" Unset {ADDRESS_VARIABLE}, or serve the model yourself and give its address: openai:MODEL@BASE_URL"
            )
    sandbox = sandboxes.load(plan.spec.sandbox)
    sandbox.check()
    if owed := plan.owed():
        if getattr(sandbox, "has_host_packages", False):
            asked_problems = dict.fromkeys(wanted.dialog.problem_id for wanted in owed)
            require_packages(plan.benchmark, (plan.problems[problem_id] for problem_id in asked_problems))
        for identity, endpoint in asked.items():
            if identity.provider is Provider.OPENAI:
                from tasks.language.opening import check_endpoint

                asyncio.run(check_endpoint(identity, endpoint, os.environ))
