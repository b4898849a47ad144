"""Artifacts in the Prefect UI: progress, leaderboard, quality checks. Failing to show one never fails a run."""

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from schemas.outside.display import markdown_cell
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home
from warehouse.connect import site_index

_log = logging.getLogger("parley.artifacts")
_EVERY_S = 5.0


class ProgressArtifact:
    """A progress bar in the UI, updated every five seconds at most."""

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


def show_results(night_id: str, markdown: str, home: Home, reports: Sequence[RunReport]) -> None:
    """The leaderboard of a night, and how each of its runs fared in the quality checks."""
    from prefect.artifacts import create_markdown_artifact

    ends = f"{sum(report.is_published for report in reports)} of {len(reports)} runs published"
    try:
        linked = "\n\n".join([markdown, *_site_line(home)])
        create_markdown_artifact(linked, key="leaderboard", description=f"Leaderboard of night {night_id}: {ends}")
        create_markdown_artifact(_checks(home, reports), key="checks", description=f"Quality checks of night {night_id}: {ends}")
    except Exception as error:  # noqa: BLE001  (as above)
        _log.warning("results could not be shown in the Prefect UI: %s", error)


def _site_line(home: Home) -> Iterator[str]:
    """Where the pages of `parley site` lie, and as of when, if they were written beside the warehouse."""
    index = site_index(home.path)
    if index is not None:
        written = datetime.fromtimestamp(index.stat().st_mtime, UTC)
        yield f"[Pages of all runs]({index.as_uri()}), as of {written:%Y-%m-%d %H:%M} UTC; `parley site` writes them anew."


def _checks(home: Home, reports: Sequence[RunReport]) -> str:
    """A table with one row for each run; all cells are data."""
    lines = ["| run | ended | because | faults | report |", "| --- | --- | --- | --- | --- |"]
    for report in reports:
        page = (home.path / report.docs_path).as_uri() if report.docs_path else None
        faults = f"{report.n_infra} infra, {report.n_unscored} unscored of {report.episodes} episodes"
        cells = (report.title, report.status, report.reason or "", faults)
        lines.append(f"| {' | '.join(map(markdown_cell, cells))} | {f'[{page}]({page})' if page else ''} |")
    return "\n".join(lines)
