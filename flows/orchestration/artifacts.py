"""Artifacts in the Prefect UI: progress, the result table, link to the quality docs. Failing to show one never fails a run."""

import logging
import time
from collections.abc import Sequence
from typing import Any

from schemas.display import markdown_cell
from tasks.planning.report import RunReport
from tasks.storage.home import Home

_log = logging.getLogger("parley.artifacts")
_EVERY_S = 2.0


class ProgressArtifact:
    """A progress bar in the UI, updated every two seconds at most."""

    def __init__(self, description: str, total: int) -> None:
        self._description, self._total, self._done = description, total, 0
        self._id: Any = None
        self._shown_at = 0.0

    def advance(self, amount: int) -> None:
        """Count so many more of `total` as done."""
        self._done += amount
        if time.monotonic() - self._shown_at >= _EVERY_S:
            self._show(min(100.0, 100.0 * self._done / self._total) if self._total else 100.0)

    def done(self) -> None:
        """Show 100 percent."""
        self._show(100.0)

    def _show(self, percent: float) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        self._shown_at = time.monotonic()
        try:
            if self._id is None:
                self._id = create_progress_artifact(percent, description=markdown_cell(self._description))
            else:
                update_progress_artifact(self._id, percent)
        except Exception as error:  # noqa: BLE001  (showing is not the work: the cause is logged and the run goes on)
            _log.warning("progress could not be shown in the Prefect UI: %s", error)


def show_results(home: Home, markdown: str, reports: Sequence[RunReport]) -> None:
    """The result table, and a link to each run's quality docs."""
    from prefect.artifacts import create_link_artifact, create_markdown_artifact

    try:
        create_markdown_artifact(markdown, key="parley-results", description="Results of this night")
        for report in reports:
            if report.docs_path:
                create_link_artifact(
                    (home.path / report.docs_path).as_uri(),
                    link_text=f"Quality checks: {markdown_cell(report.title)}",
                    key=f"parley-docs-{report.run_id}",
                )
    except Exception as error:  # noqa: BLE001  (as above)
        _log.warning("results could not be shown in the Prefect UI: %s", error)
