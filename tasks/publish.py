"""Prefect task: the single writer of the warehouse."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.storage.home import Home
from tasks.storage.publishing import publish_to_warehouse


@task(name="publish", task_run_name="publish", cache_policy=NO_CACHE, retries=2, retry_delay_seconds=5)
def publish(home: Home, run_ids: tuple[str, ...] | None, *, rebuild: bool = False) -> str:
    """Load runs into a new warehouse file and put it in the old one's place; returns its path."""
    return str(publish_to_warehouse(home, run_ids, rebuild=rebuild).path)
