"""Keeps people's ratings in the lake: one part a rater, replaced as a whole."""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.rating import Rating
from tasks.judging.rating_file import QUARANTINE, RatedEpisode, RatingFile, read_lines, read_ratings
from tasks.judging.rating_scales import Scales
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake, listing_again
from tasks.storage.reviewed import reviewed_items

_PART = "all"


ScalesOf = Callable[[str], Scales | None]


def no_scales(benchmark: str) -> Scales | None:
    """Return that nothing is known of a benchmark's rubrics."""
    return None


@dataclass(frozen=True)
class Imported:
    """One import, counted. `n_changed` ratings are new, or other than before."""

    file: RatingFile
    n_changed: int


def import_ratings(home: Home, source: Path, scales_of: ScalesOf = no_scales) -> Imported:
    """Read a file of ratings into the lake.

    A rating replaces the same rater's earlier one of the same thing. Importing a file again changes nothing. The quarantine holds
    the faults of the file's last import, so that mended rows leave it.

    Args:
        scales_of: benchmark -> the scales of its rubrics; None where people rate by rubrics of their own.

    Raises:
        SourceUnreadable: no file of ratings at all.
        UsageError: another import is at work on this home.
    """
    lines = read_lines(source)
    lake = Lake(home.lake)
    wanted = {line["episode_id"] for line in lines if len(line.fields) > 1}
    file = read_ratings(
        source,
        lines,
        listing_again(lambda: {**_episodes(lake, wanted, scales_of), **_reviewed(home)}),
    )
    with home.lock(
        "ratings",
        f"ratings are being imported into {home.path} by another process. Type the command again after it",
    ):
        n_changed = _keep(lake, file.ratings)
        keys = {"benchmark": QUARANTINE, "dataset_version": source.name}
        name = content_id(file.quarantined)
        if file.quarantined:
            lake.write_part("quarantine", file.quarantined, name, **keys)
        lake.keep_only("quarantine", [name] if file.quarantined else [], **keys)
    return Imported(file, n_changed)


def _episodes(lake: Lake, wanted: Collection[str], scales_of: ScalesOf) -> dict[str, RatedEpisode]:
    """The wanted episodes that the lake has, with the turns of all their attempts."""
    benchmarks: dict[str, str] = {}
    turns: dict[str, set[int]] = defaultdict(set)
    for part in lake.parts("episodes"):
        ids = lake.read_arrow("episodes", [part], ["episode_id"])["episode_id"].to_pylist()
        places = [place for place, name in enumerate(ids) if name in wanted]
        if not places:
            continue
        rows = lake.read_arrow("episodes", [part], ["episode_id", "benchmark", "steps"]).take(
            places
        )
        for row in rows.to_pylist():
            benchmarks[row["episode_id"]] = row["benchmark"]
            turns[row["episode_id"]].update(step["turn"] for step in row["steps"])
    scales = {benchmark: scales_of(benchmark) for benchmark in {*benchmarks.values()}}
    return {
        name: RatedEpisode(own, frozenset(turns[name]), scales[own])
        for name, own in benchmarks.items()
    }


def _reviewed(home: Home) -> dict[str, RatedEpisode]:
    """Things of built datasets, which are no episodes: rated as a whole."""
    return {
        name: RatedEpisode(thing.benchmark, frozenset(), thing.scales)
        for name, thing in reviewed_items(home).items()
    }


def _keep(lake: Lake, ratings: Collection[Rating]) -> int:
    """Write what differs; returns how many ratings do."""
    of_rater: dict[str, dict[tuple[str, int, str, str], Rating]] = {}
    for rating in ratings:
        of_rater.setdefault(rating.rater, {})[rating.key] = rating
    n_changed = 0
    for rater, given in sorted(of_rater.items()):
        before = {rating.key: rating for rating in lake.read("ratings", Rating, rater=rater)}
        changed = {key: rating for key, rating in given.items() if before.get(key) != rating}
        if changed:
            after = before | changed
            lake.write_part("ratings", [after[key] for key in sorted(after)], _PART, rater=rater)
        n_changed += len(changed)
    return n_changed
