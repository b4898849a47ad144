"""Prefect task: the single writer of the warehouse."""

from prefect import task

from tasks.cache_policy import OPTIONS
from tasks.planning.reporting.publishing import publish_to_warehouse
from tasks.storage.home import Home


@task(name="publish", task_run_name="publish", **OPTIONS)
def publish(home: Home, run_ids: tuple[str, ...] | None, *, rebuild: bool = False) -> str:
    """Load runs into a new warehouse file and put it in the old one's place; returns its path."""
    return str(publish_to_warehouse(home, run_ids, rebuild=rebuild).path)
