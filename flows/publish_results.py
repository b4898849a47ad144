"""Flow that publishes the lake as the warehouse for readers."""

from collections.abc import Callable, Sequence
from typing import Any

from prefect import flow

from tasks.planning.reporting.report import RunReport
from tasks.publish import publish
from tasks.storage.home import find_home


@flow(name="publish_results", flow_run_name="publish", validate_parameters=False)
def publish_results(
    run_ids: Sequence[str] | None = None,
    home: str | None = None,
    rebuild: bool = False,
    call: Callable[..., Any] | None = None,
) -> str:
    """Publish some runs, or the whole lake, and return the warehouse's path.

    Readers never see a partial publication.

    Args:
        call: Function that runs another function in a process without API keys; see
            `publish_to_warehouse`.

    Raises:
        ParleyError: Another process publishes, or the lake cannot be read. The old warehouse stays.
    """
    chosen = None if run_ids is None else tuple(run_ids)
    return publish(find_home(home), chosen, rebuild=rebuild, call=call)


def published_count(reports: Sequence[RunReport]) -> int:
    """Return the number of published runs."""
    return sum(report.is_published for report in reports)
