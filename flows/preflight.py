"""What can be known to fail before anything is started."""

import asyncio
import os

from sandbox import registry as sandboxes
from schemas.run import Provider
from tasks.planning.plan import RunPlan


def preflight(plan: RunPlan) -> None:
    """Check sandbox, and endpoint where episodes are owed.

    Raises:
        SandboxUnavailable: with what to install.
        ModelUnavailable: a dead endpoint, a wrong key or model name, with what to mend.
    """
    sandboxes.load(plan.spec.sandbox).check()
    if plan.spec.subject.provider is Provider.OPENAI and plan.owed():
        from tasks.language.opening import check_endpoint

        asyncio.run(check_endpoint(plan.spec.subject, plan.subject, os.environ))
