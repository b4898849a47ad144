"""Checks of features that need a folder shared by the driver and all workers.

An object store alone is not such a folder.
"""

import os
from collections.abc import Mapping

from flows.orchestration.dask_cluster import ADDRESS_VARIABLE
from schemas.errors import ConfigError
from schemas.night.budget import Budget
from schemas.outside.secret_names import looks_secret
from tasks.planning.plan import RunPlan
from tasks.storage.home import LAKE_VARIABLE, Home

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
            f"a budget needs a folder that all processes of a night share. {_remedy(home)},"
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
            f" {_remedy(home)}, or remove `telemetry` and the variable OTEL_EXPORTER_OTLP_ENDPOINT"
        )


def require_trees_are_met(plan: RunPlan) -> None:
    """Reject an agent if a worker could not find the files that the agent edited on another worker.

    Raises:
        ConfigError: The workers share no folder. The message names the remedy.
    """
    if plan.spec.agent is not None and _shares_no_folder(plan.home):
        raise ConfigError(
            f"agent {plan.spec.agent.name!r} needs a working folder that all workers share."
            f" {_remedy(plan.home)}"
        )


def _shares_no_folder(home: Home) -> bool:
    return home.is_store and bool(os.environ.get(ADDRESS_VARIABLE))


def _remedy(home: Home) -> str:
    return (
        f"With {LAKE_VARIABLE}={home.lake_at} and"
        f" {ADDRESS_VARIABLE}={os.environ.get(ADDRESS_VARIABLE)} no folder is shared. Unset"
        f" {LAKE_VARIABLE} and set PARLEY_HOME to a folder that all machines share, or unset"
        f" {ADDRESS_VARIABLE} to use this machine"
    )
