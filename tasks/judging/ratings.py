"""Import of people's ratings into the lake: one part per rater, replaced as a unit."""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.verdict import Rating
from tasks.judging.rating_file import QUARANTINE, RatedEpisode, RatingFile, read_lines, read_ratings
from tasks.judging.rubric import Scales
from tasks.storage.home import Home
from tasks.storage.home_records import reviewed_items
from tasks.storage.parquet_store import Lake, listing_again

_PART = "all"


ScalesOf = Callable[[str], Scales | None]


def no_scales(benchmark: str) -> Scales | None:
    """Return None, which means that the benchmark's rubrics are unknown."""
    return None


@dataclass(frozen=True)
class Imported:
    """Result of one import. `n_changed` counts ratings that are new or differ from stored ones."""

    file: RatingFile
    n_changed: int


def import_ratings(home: Home, source: Path, scales_of: ScalesOf = no_scales) -> Imported:
    """Read a file of ratings into the lake.

    A rating replaces an earlier one by the same rater for the same item. Importing a file again
    changes nothing. The quarantine contains the faults of the file's last import, so corrected rows
    leave it.

    Args:
        home: Parley's data folder.
        source: CSV file of ratings, or a review sheet.
        scales_of: Returns the scales of a benchmark's rubrics. None if people use their own
            rubrics.

    Raises:
        SourceUnreadable: The file contains no ratings.
        UsageError: Another import into this home is running.
    """
    lines = read_lines(source)
    lake = Lake(home.lake)
    wanted = {line["episode_id"] for line in lines if len(line.fields) > 1}
    file = read_ratings(
        source,
        lines,
        listing_again(lambda: {**_episodes(lake, wanted, scales_of), **_reviewed_items(home)}),
    )
    with home.lock(
        "ratings",
        f"another process is importing ratings into {home.path}. Repeat the command after it ends",
    ):
        n_changed = _store(lake, file.ratings)
        keys = {"benchmark": QUARANTINE, "dataset_version": source.name}
        name = content_id(file.quarantined)
        if file.quarantined:
            lake.write_part("quarantine", file.quarantined, name, **keys)
        lake.keep_only("quarantine", [name] if file.quarantined else [], **keys)
    return Imported(file, n_changed)


def _episodes(lake: Lake, wanted: Collection[str], scales_of: ScalesOf) -> dict[str, RatedEpisode]:
    """Return the wanted episodes in the lake, with the turns of all their attempts."""
    benchmarks: dict[str, str] = {}
    turns: dict[str, set[int]] = defaultdict(set)
    for part in lake.parts("episodes"):
        ids = lake.read_arrow("episodes", [part], ["episode_id"])["episode_id"].to_pylist()
        indices = [index for index, name in enumerate(ids) if name in wanted]
        if not indices:
            continue
        rows = lake.read_arrow("episodes", [part], ["episode_id", "benchmark", "steps"]).take(
            indices
        )
        for row in rows.to_pylist():
            benchmarks[row["episode_id"]] = row["benchmark"]
            turns[row["episode_id"]].update(step["turn"] for step in row["steps"])
    scales = {benchmark: scales_of(benchmark) for benchmark in {*benchmarks.values()}}
    return {
        name: RatedEpisode(benchmark, frozenset(turns[name]), scales[benchmark])
        for name, benchmark in benchmarks.items()
    }


def _reviewed_items(home: Home) -> dict[str, RatedEpisode]:
    """Return the review items of constructed datasets, as episodes to rate.

    Such an item has no turns, so people rate it as a whole.
    """
    return {
        name: RatedEpisode(item.benchmark, frozenset(), item.scales)
        for name, item in reviewed_items(home).items()
    }


def _store(lake: Lake, ratings: Collection[Rating]) -> int:
    """Store the ratings that differ from stored ones. Return their number."""
    of_rater: dict[str, dict[tuple[str, int, str, str], Rating]] = {}
    for rating in ratings:
        of_rater.setdefault(rating.rater, {})[rating.key] = rating
    n_changed = 0
    for rater, imported in sorted(of_rater.items()):
        before = {rating.key: rating for rating in lake.read("ratings", Rating, rater=rater)}
        changed = {key: rating for key, rating in imported.items() if before.get(key) != rating}
        if changed:
            after = before | changed
            lake.write_part("ratings", [after[key] for key in sorted(after)], _PART, rater=rater)
        n_changed += len(changed)
    return n_changed
