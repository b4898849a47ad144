"""Artifacts in the Prefect UI: progress, leaderboard, comparison, quality checks.

A failure to create an artifact never fails a run.
"""

import logging
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from flows.site.pages import address, comparison_page, night_page, run_page
from flows.text.comparison import LEGEND, comparison_markdown
from schemas.outside.display import markdown_cell
from tasks.planning.reporting.report import RunReport
from tasks.storage.home import Home
from warehouse.connect import site_index

_log = logging.getLogger("parley.artifacts")
_EVERY_S = 5.0


class ProgressArtifact:
    """Progress bar in the UI, updated at most every five seconds, and not in the first five.

    Args:
        title: title of the run.
        stage: stage of the run, in lower case. All bars of a stage share one key, which keeps the
            list of artifacts short.
        total: amount of work.
    """

    def __init__(self, title: str, stage: str, total: int) -> None:
        self._key, self._description = f"progress-{stage}", f"{title}: {stage}"
        self._total, self._done = total, 0
        self._id: Any = None
        self._shown_at = time.monotonic()

    def advance(self, amount: int) -> None:
        """Add `amount` to the finished work."""
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
                self._id = create_progress_artifact(
                    percent, key=self._key, description=markdown_cell(self._description)
                )
            else:
                update_progress_artifact(self._id, percent)
        except Exception as error:  # noqa: BLE001  (a missing progress bar must not stop the run)
            _log.warning("progress could not be shown in the Prefect UI: %s", error)


def show_results(
    night_id: str,
    markdown: str,
    compared: Sequence[Mapping[str, Any]],
    home: Home,
    reports: Sequence[RunReport],
    site_url: str | None = None,
) -> None:
    """Create the artifacts of a night: leaderboard, comparisons, quality checks.

    Args:
        night_id: the night.
        markdown: the leaderboard.
        compared: rows of the table `comparisons`. Empty: no comparison is shown.
        home: Parley's home.
        reports: reports of the night's runs.
        site_url: URL of the site, for links.
    """
    from prefect.artifacts import create_markdown_artifact

    ends = f"{sum(report.is_published for report in reports)} of {len(reports)} runs published"
    try:
        linked = "\n\n".join([markdown, *_further(home, night_id, site_url)])
        create_markdown_artifact(
            linked, key="leaderboard", description=f"Leaderboard of night {night_id}: {ends}"
        )
        if compared:
            text = "\n\n".join(
                (comparison_markdown(compared), LEGEND, "\n".join(_pair_links(compared, site_url)))
            ).rstrip()
            create_markdown_artifact(
                text,
                key="comparison",
                description=f"Comparison of night {night_id}: {_events(compared)}",
            )
        create_markdown_artifact(
            _checks(home, reports, site_url),
            key="checks",
            description=f"Quality checks of night {night_id}: {ends}",
        )
    except Exception as error:  # noqa: BLE001  (as above)
        _log.warning("results could not be shown in the Prefect UI: %s", error)


def _events(compared: Sequence[Mapping[str, Any]]) -> str:
    pairs, counts = (
        {(row["run_id"], row["other_run_id"]) for row in compared},
        Counter(row["event"] for row in compared),
    )
    return (
        f"regressions: {counts['regression']}, improvements: {counts['improvement']}, pairs of"
        f" runs: {len(pairs)}"
    )


def _pair_links(compared: Sequence[Mapping[str, Any]], site_url: str | None) -> Iterator[str]:
    """Yield a Markdown list item for each pair of runs, which links to its comparison page."""
    if site_url:
        pairs = dict.fromkeys(
            (row["other_run_id"], row["run_id"], row["setting"], row["model"]) for row in compared
        )
        for old, new, setting, model in pairs:
            url = address(site_url, comparison_page(old, new))
            yield f"- [{markdown_cell(f'{setting} · {model}')}]({url})"


def _further(home: Home, night_id: str, site_url: str | None = None) -> Iterator[str]:
    """Yield lines about where to find more details: links to the site, and commands.

    Without `site_url`, the links lead to the site's files beside the warehouse.
    """
    if site_url:
        night = address(site_url, night_page(night_id))
        yield f"[Pages of all runs]({address(site_url, 'index.html')}), [this night]({night})."
        yield f"`parley report {night_id}` shows this night's work."
        return
    parley, index = f"PARLEY_HOME={shlex.quote(str(home.path))} parley", site_index(home.path)
    if index is not None:
        written = datetime.fromtimestamp(index.stat().st_mtime, UTC)
        yield f"[Pages of all runs]({index.as_uri()}), as of {written:%Y-%m-%d %H:%M} UTC."
    pages = "updates these pages" if index else "writes pages of all runs"
    yield f"`{parley} site` {pages}. `{parley} report {night_id}` shows this night's work."


def _checks(home: Home, reports: Sequence[RunReport], site_url: str | None = None) -> str:
    """Return a Markdown table of the runs: status, reason, faults and report. Cells are escaped."""
    lines = ["| run | status | reason | faults | report |", "| --- | --- | --- | --- | --- |"]
    for report in reports:
        record = report.record
        page = (home.path / record.docs_path).as_uri() if record and record.docs_path else None
        if site_url and report.is_published:
            page = address(site_url, run_page(report.run_id))
        n_infra, n_unscored = (record.n_infra, record.n_unscored) if record else (0, 0)
        faults = f"{n_infra} infra, {n_unscored} unscored of {report.episodes} episodes"
        cells = (report.title, report.status, report.reason or "", faults)
        lines.append(
            f"| {' | '.join(map(markdown_cell, cells))} | {f'[{page}]({page})' if page else ''} |"
        )
    return "\n".join(lines)
