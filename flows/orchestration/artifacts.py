"""Artifacts in the Prefect UI: progress, leaderboard, comparison, quality checks. Failing to show one never fails a run."""

import logging
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from flows.site.links import address, comparison_page, night_page, run_page
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
                self._id = create_progress_artifact(
                    percent, key=self._key, description=markdown_cell(self._description)
                )
            else:
                update_progress_artifact(self._id, percent)
        except Exception as error:  # noqa: BLE001  (showing is not the work: the cause is logged and the run goes on)
            _log.warning("progress could not be shown in the Prefect UI: %s", error)


def show_results(
    night_id: str,
    markdown: str,
    compared: Sequence[Mapping[str, Any]],
    home: Home,
    reports: Sequence[RunReport],
    site_url: str | None = None,
) -> None:
    """The leaderboard of a night, how its runs compare with others, and how each fared in the quality checks.

    Args:
        markdown: the leaderboard.
        compared: rows of the table `comparisons`; where there is none, no comparison is shown.
        site_url: address of the site, for links.
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
                (comparison_markdown(compared), LEGEND, *_pair_links(compared, site_url))
            )
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
    pairs, found = (
        {(row["run_id"], row["other_run_id"]) for row in compared},
        Counter(row["event"] for row in compared),
    )
    return f"regressions: {found['regression']}, improvements: {found['improvement']}, pairs of runs: {len(pairs)}"


def _pair_links(compared: Sequence[Mapping[str, Any]], site_url: str | None) -> Iterator[str]:
    """Yield a list of the pages that compare these pairs."""
    if site_url:
        pairs = dict.fromkeys(
            (row["other_run_id"], row["run_id"], row["setting"], row["model"]) for row in compared
        )
        yield "\n".join(
            f"- [{markdown_cell(f'{setting} · {model}')}]({address(site_url, comparison_page(old, new))})"
            for old, new, setting, model in pairs
        )


def _further(home: Home, night_id: str, site_url: str | None = None) -> Iterator[str]:
    """Yield links to the site: at `site_url`, else as it was written beside the warehouse; and the commands that tell more."""
    if site_url:
        night = address(site_url, night_page(night_id))
        yield f"[Pages of all runs]({address(site_url, 'index.html')}), [this night]({night})."
        yield f"`parley report {night_id}` tells of this night."
        return
    parley, index = f"PARLEY_HOME={shlex.quote(str(home.path))} parley", site_index(home.path)
    if index is not None:
        written = datetime.fromtimestamp(index.stat().st_mtime, UTC)
        yield f"[Pages of all runs]({index.as_uri()}), as of {written:%Y-%m-%d %H:%M} UTC."
    pages = "the pages anew" if index else "pages of all runs"
    yield f"`{parley} site` writes {pages}; `{parley} report {night_id}` tells of this night."


def _checks(home: Home, reports: Sequence[RunReport], site_url: str | None = None) -> str:
    """A table with one row for each run; all cells are data."""
    lines = ["| run | ended | because | faults | report |", "| --- | --- | --- | --- | --- |"]
    for report in reports:
        page = (home.path / report.docs_path).as_uri() if report.docs_path else None
        if site_url and report.is_published:
            page = address(site_url, run_page(report.run_id))
        faults = (
            f"{report.n_infra} infra, {report.n_unscored} unscored of {report.episodes} episodes"
        )
        cells = (report.title, report.status, report.reason or "", faults)
        lines.append(
            f"| {' | '.join(map(markdown_cell, cells))} | {f'[{page}]({page})' if page else ''} |"
        )
    return "\n".join(lines)
