"""Artifacts in the Prefect UI: progress, leaderboard, comparison, quality checks. Failing to show one never fails a run."""

import logging
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from flows.text.comparison import LEGEND, comparison_markdown
from schemas.outside.display import markdown_cell
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home
from warehouse.connect import site_index

_log = logging.getLogger("parley.artifacts")
_EVERY_S = 5.0


class ProgressArtifact:
    """A progress bar in the UI, updated every five seconds at most.

    Args:
        title: which run it is of.
        stage: its stage, in lower case. The bars of a stage have one key, so that the list of artifacts stays short.
        total: what is to be done.
    """

    def __init__(self, title: str, stage: str, total: int) -> None:
        self._key, self._description = f"progress-{stage}", f"{title}: {stage}"
        self._total, self._done = total, 0
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
                self._id = create_progress_artifact(percent, key=self._key, description=markdown_cell(self._description))
            else:
                update_progress_artifact(self._id, percent)
        except Exception as error:  # noqa: BLE001  (showing is not the work: the cause is logged and the run goes on)
            _log.warning("progress could not be shown in the Prefect UI: %s", error)


def show_results(
    night_id: str, markdown: str, compared: Sequence[Mapping[str, Any]], home: Home, reports: Sequence[RunReport]
) -> None:
    """The leaderboard of a night, how its runs compare with others, and how each fared in the quality checks.

    Args:
        markdown: the leaderboard.
        compared: rows of the table `comparisons`; where there is none, no comparison is shown.
    """
    from prefect.artifacts import create_markdown_artifact

    ends = f"{sum(report.is_published for report in reports)} of {len(reports)} runs published"
    try:
        linked = "\n\n".join([markdown, *_further(home, night_id)])
        create_markdown_artifact(linked, key="leaderboard", description=f"Leaderboard of night {night_id}: {ends}")
        if compared:
            text = f"{comparison_markdown(compared)}\n\n{LEGEND}"
            create_markdown_artifact(text, key="comparison", description=f"Comparison of night {night_id}: {_events(compared)}")
        create_markdown_artifact(_checks(home, reports), key="checks", description=f"Quality checks of night {night_id}: {ends}")
    except Exception as error:  # noqa: BLE001  (as above)
        _log.warning("results could not be shown in the Prefect UI: %s", error)


def _events(compared: Sequence[Mapping[str, Any]]) -> str:
    pairs, found = {(row["run_id"], row["other_run_id"]) for row in compared}, Counter(row["event"] for row in compared)
    return f"regressions: {found['regression']}, improvements: {found['improvement']}, pairs of runs: {len(pairs)}"


def _further(home: Home, night_id: str) -> Iterator[str]:
    """The pages of `parley site`, as of when, if they were written beside the warehouse; and what commands tell more."""
    parley, index = f"PARLEY_HOME={shlex.quote(str(home.path))} parley", site_index(home.path)
    if index is not None:
        written = datetime.fromtimestamp(index.stat().st_mtime, UTC)
        yield f"[Pages of all runs]({index.as_uri()}), as of {written:%Y-%m-%d %H:%M} UTC."
    pages = "the pages anew" if index else "pages of all runs"
    yield f"`{parley} site` writes {pages}; `{parley} report {night_id}` tells of this night."


def _checks(home: Home, reports: Sequence[RunReport]) -> str:
    """A table with one row for each run; all cells are data."""
    lines = ["| run | ended | because | faults | report |", "| --- | --- | --- | --- | --- |"]
    for report in reports:
        page = (home.path / report.docs_path).as_uri() if report.docs_path else None
        faults = f"{report.n_infra} infra, {report.n_unscored} unscored of {report.episodes} episodes"
        cells = (report.title, report.status, report.reason or "", faults)
        lines.append(f"| {' | '.join(map(markdown_cell, cells))} | {f'[{page}]({page})' if page else ''} |")
    return "\n".join(lines)
