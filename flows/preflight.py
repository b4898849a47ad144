"""What can be known to fail before anything is started."""

import asyncio
import os

from flows.task_runner import ADDRESS_VARIABLE
from sandbox import registry as sandboxes
from schemas.errors import ConfigError
from schemas.run import Provider
from tasks.planning.plan import RunPlan

SERVED_HERE = (Provider.EMBEDDED, Provider.VLLM)
"""Models that Parley serves itself, on this machine's loopback."""


def preflight(plan: RunPlan) -> None:
    """Check sandbox, and endpoint where episodes are owed.

    Raises:
        ConfigError: the model would be served on this machine's loopback, and the workers are elsewhere.
        SandboxUnavailable: with what to install.
        ModelUnavailable: a dead endpoint, a wrong key or model name, with what to mend.
    """
    subject = plan.spec.subject
    if subject.provider in SERVED_HERE and os.environ.get(ADDRESS_VARIABLE):
        raise ConfigError(
            f"model {subject.label} is served on this machine's loopback, but {ADDRESS_VARIABLE} sends work elsewhere."
            f" Unset {ADDRESS_VARIABLE}, or serve the model yourself and give its address: openai:MODEL@BASE_URL"
        )
    sandboxes.load(plan.spec.sandbox).check()
    if subject.provider is Provider.OPENAI and plan.owed():
        from tasks.language.opening import check_endpoint

        asyncio.run(check_endpoint(subject, plan.subject, os.environ))
