"""What a run needs of a folder that driver and workers share, and cannot have where they share an object store alone."""

import os
from collections.abc import Mapping

from flows.orchestration.dask_cluster import ADDRESS_VARIABLE
from schemas.errors import ConfigError
from schemas.night.budget import Budget
from schemas.outside.secret_names import looks_secret
from tasks.planning.plan import RunPlan
from tasks.storage.home import LAKE_VARIABLE, Home

_OF_STORES = ("AWS_", "FSSPEC_", "AZURE_", "GOOGLE_")


def store_secrets(home: Home, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Variables by which workers of this machine reach the store of the lake."""
    if not home.is_store:
        return ()
    return tuple(name for name in environ if name.startswith(_OF_STORES) and looks_secret(name))


def require_budget_is_counted(home: Home, budget: Budget | None) -> None:
    """Refuse a budget that workers elsewhere could not count.

    Raises:
        ConfigError: with the remedy.
    """
    if budget is not None and _is_beyond(home):
        raise ConfigError(
            f"a budget is counted in a folder that all processes of a night share. {_remedy(home)}, or leave it out"
        )


def require_shared_call_log(home: Home) -> None:
    """Refuse metrics of model calls where driver and workers share no folder for the log of calls.

    Raises:
        ConfigError: with the remedy.
    """
    if _is_beyond(home):
        raise ConfigError(
            f"metrics of model calls are logged in a folder that all processes of a night share. {_remedy(home)}, or leave out"
            " `telemetry` and the variable OTEL_EXPORTER_OTLP_ENDPOINT"
        )


def require_trees_are_met(plan: RunPlan) -> None:
    """Refuse an agent whose worker may be followed by one that does not find the tree it worked on.

    Raises:
        ConfigError: with the remedy.
    """
    if plan.spec.agent is not None and _is_beyond(plan.home):
        raise ConfigError(
            f"agent {plan.spec.agent.name!r}: the trees that agents work on lie in a folder that all workers share."
            f" {_remedy(plan.home)}"
        )


def _is_beyond(home: Home) -> bool:
    return home.is_store and bool(os.environ.get(ADDRESS_VARIABLE))


def _remedy(home: Home) -> str:
    return (
        f"With {LAKE_VARIABLE}={home.lake_at} and {ADDRESS_VARIABLE}={os.environ.get(ADDRESS_VARIABLE)} there is none: unset"
        f" {LAKE_VARIABLE} and give all machines one PARLEY_HOME, or unset {ADDRESS_VARIABLE} to use this machine"
    )
