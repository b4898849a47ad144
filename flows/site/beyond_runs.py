"""Pages that look at more than one run: comparisons, nights, and histories of model families."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from flows.site.pages import SHORT, file_name, write
from flows.site.transcripts import turns_of
from flows.text.night import seconds_of, withheld_lines
from flows.text.work import work_lines
from schemas.errors import UsageError
from schemas.run import NightRecord
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake
from warehouse.site_rows import SiteRows

SIDE_BY_SIDE = 500
"""So many changed dialogues of a comparison have a page with both transcripts; the others have two links."""


def write_comparisons(folder: Path, rows: SiteRows, asked: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """A page for each pair of runs that a night compared, or that is asked for; returns how they are named."""
    found = rows.rows("select * from comparisons order by night_id desc, run_id, against, metric")
    pairs = dict.fromkeys([*asked, *((row["other_run_id"], row["run_id"]) for row in found)])
    runs = {run["run_id"]: run for run in rows.runs()}
    named: list[dict[str, Any]] = []
    for old, new in pairs:
        if not {old, new} <= runs.keys():
            continue
        values = [row for row in found if (row["other_run_id"], row["run_id"]) == (old, new)]
        changed = rows.changed(old, new)
        name = f"{old[:SHORT]}-{new[:SHORT]}"
        both = {(row["old_episode"], row["new_episode"]): row for row in changed}
        shown = dict(list(both.items())[:SIDE_BY_SIDE])
        pair: dict[str, Any] = {"up": "../", "old": runs[old], "new": runs[new], "name": name}
        write(folder / "compared" / f"{name}.html", "compared", **pair, rows=values, changed=changed, shown=set(shown))
        left = dict(rows.parts_of(old, [episode for episode, _ in shown]))
        right = dict(rows.parts_of(new, [episode for _, episode in shown]))
        for (one, other), row in shown.items():
            path = folder / "compared" / name / f"{file_name(one)}-{file_name(other)}.html"
            sides = {"left": list(turns_of(left[one])), "right": list(turns_of(right[other]))}
            write(path, "side_by_side", **{**pair, "up": "../../"}, row=row, **sides)
        named.append({"name": name, "old": runs[old], "new": runs[new], "n_changed": len(both)})
    return named


def write_nights(folder: Path, rows: SiteRows, home: Home) -> list[dict[str, Any]]:
    """A page for each night; returns the nights, the newest first."""
    lake = Lake(home.lake)
    nights = sorted(lake.read("nights", NightRecord), key=lambda night: night.started_at, reverse=True)
    published = {run["run_id"]: run for run in rows.runs()}
    for night in nights:
        seconds = seconds_of(lake, night.night_id)
        works = [
            {
                "work": work,
                "run": published.get(work.run_id),
                "lines": list(work_lines(work)),
                "withheld": _withheld(home, work.run_id) if work.status != "finished" else [],
                "seconds": seconds.get(work.run_id, {}),
            }
            for work in night.work
        ]
        path = folder / "nights" / f"{file_name(night.night_id)}.html"
        write(path, "night", up="../", night=night, works=works, besides=seconds.get("", {}))
    return [{"night_id": one.night_id, "started_at": one.started_at, "work": one.work} for one in nights]


def _withheld(home: Home, run_id: str) -> list[str]:
    try:
        return withheld_lines(home, run_id)
    except UsageError as error:
        return [str(error)]


def write_history(folder: Path, rows: SiteRows) -> list[dict[str, Any]]:
    """A page for each model family; returns their names and numbers of points."""
    found = rows.rows("select * from history order by family, series, metric, position")
    families: list[dict[str, Any]] = []
    for family, members in groupby(found, key=lambda row: row["family"]):
        points = list(members)
        series = [(key, list(group)) for key, group in groupby(points, key=lambda row: (row["series"], row["metric"]))]
        write(folder / "history" / f"{file_name(family)}.html", "history", up="../", family=family, series=series)
        families.append({"family": family, "n": len({row["run_id"] for row in points})})
    return families
