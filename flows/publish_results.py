"""Flow that publishes the lake as the warehouse for readers."""

from collections.abc import Callable, Sequence
from typing import Any

from flows.orchestration.inner_flows import plain_flow
from tasks.planning.reporting.publishing import publish_to_warehouse
from tasks.stage import run_task
from tasks.storage.home import find_home


@plain_flow(name="publish_results", flow_run_name="publish")
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
    report = run_task(
        "publish",
        "",
        lambda: publish_to_warehouse(find_home(home), chosen, rebuild=rebuild, call=call),
    )
    return str(report.path)
