"""Prefect task: the single writer of the warehouse."""

from collections.abc import Callable
from typing import Any

from prefect import task

from tasks.cache_policy import OPTIONS
from tasks.planning.reporting.publishing import publish_to_warehouse
from tasks.storage.home import Home


@task(name="publish", task_run_name="publish", **OPTIONS)
def publish(
    home: Home,
    run_ids: tuple[str, ...] | None,
    *,
    rebuild: bool = False,
    call: Callable[..., Any] | None = None,
) -> str:
    """Load runs into a new warehouse file, replace the old one, and return its path.

    Args:
        call: See `publish_to_warehouse`.
    """
    return str(publish_to_warehouse(home, run_ids, rebuild=rebuild, call=call).path)
