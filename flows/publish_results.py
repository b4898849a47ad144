"""Flow: publishes the lake as the warehouse that people read."""

from collections.abc import Sequence

from prefect import flow

from tasks.planning.reporting.report import RunReport
from tasks.publish import publish
from tasks.storage.home import find_home


@flow(name="publish_results", flow_run_name="publish", validate_parameters=False)
def publish_results(
    run_ids: Sequence[str] | None = None, home: str | None = None, rebuild: bool = False
) -> str:
    """Publish some runs, or all of the lake; returns the warehouse's path. Readers never see half of it.

    Raises:
        ParleyError: another publish holds the lock, or the lake cannot be read; the old warehouse stays.
    """
    return publish(find_home(home), None if run_ids is None else tuple(run_ids), rebuild=rebuild)


def published_count(reports: Sequence[RunReport]) -> int:
    """How many runs were published."""
    return sum(report.is_published for report in reports)
