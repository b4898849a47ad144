"""Import of people's ratings into the lake: one part per rater, replaced as a unit."""

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.content_id import content_id
from schemas.errors import SourceUnreadable
from schemas.outside.display import is_plain_name
from schemas.problem import QuarantinedRow
from schemas.verdict import Rating
from tasks.judging.rubric import RatingScale, Scales
from tasks.storage.home import Home
from tasks.storage.home_records import reviewed_items
from tasks.storage.parquet_store import Lake, listing_again

COLUMNS = ("episode_id", "turn", "rubric", "dimension", "rater", "value")
SHEET_VALUE = "value:"
"""Prefix of the review sheet columns that contain the values of a dimension."""
_SHEET_COLUMNS = ("episode_id", "rubric", "rater")
QUARANTINE = "ratings"
"""Value of the quarantine column `benchmark`. The file's name is in `dataset_version`."""
MOST_LETTERS = 60
EXCERPT_LENGTH = 200


class BadRating(ValueError):
    """Error for a row that is not a valid rating. `reason` is its machine-readable name."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class RatedEpisode:
    """Benchmark, turns and scales of an episode that people can rate."""

    benchmark: str
    turns: frozenset[int]
    scales: Scales | None = None
    """Scales of the benchmark's rubrics. None if they are unknown."""


@dataclass(frozen=True)
class Line:
    """One row of the file, by column, with the number of its last line."""

    number: int
    fields: tuple[str, ...]

    def __getitem__(self, column: str) -> str:
        return self.fields[COLUMNS.index(column)]


@dataclass(frozen=True)
class RatingFile:
    """Contents of a file. `len(ratings) + len(quarantined) == n_input` always holds."""

    ratings: tuple[Rating, ...]
    quarantined: tuple[QuarantinedRow, ...]
    n_input: int


def read_lines(source: Path) -> tuple[Line, ...]:
    """Return the file's rows, with columns in the order of `COLUMNS`. Empty lines are skipped.

    A review sheet has a column `value:DIMENSION` for each dimension. It yields one row per filled
    value.

    Raises:
        SourceUnreadable: The file is not CSV in UTF-8, or it has neither exactly these columns nor
            those of a review sheet.
    """
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            if any(name.startswith(SHEET_VALUE) for name in header):
                numbered = ((reader.line_num, row) for row in reader if row)
                return tuple(
                    line
                    for number, row in numbered
                    for line in _sheet_lines(number, row, header, source)
                )
            order = _order(header, source)
            rows = ((reader.line_num, row) for row in reader if row)
            return tuple(Line(number, _in_order(row, order)) for number, row in rows)
    except UnicodeDecodeError as error:
        raise SourceUnreadable(
            f"{source} is not UTF-8 ({error.reason} at byte {error.start}). Save it as CSV in UTF-8"
        ) from None
    except csv.Error as error:
        raise SourceUnreadable(f"{source} is not CSV: {error}") from None
    except OSError as error:
        raise SourceUnreadable(f"{source} cannot be read: {error.strerror}") from None


def _order(header: Sequence[str], source: Path) -> tuple[int, ...]:
    missing = [column for column in COLUMNS if column not in header]
    extra = [name for name in header if name not in COLUMNS] + [
        name for name, n in Counter(header).items() if n > 1
    ]
    if missing or extra:
        faults = [f"lacks {', '.join(missing)}"] * bool(missing) + [
            f"has additional columns {', '.join(map(repr, extra))}"
        ] * bool(extra)
        raise SourceUnreadable(
            f"the header of {source} {' and '.join(faults)}. Write the column names on the first"
            f" line, separated by commas: {','.join(COLUMNS)}"
        )
    return tuple(header.index(column) for column in COLUMNS)


def _sheet_lines(
    number: int, row: Sequence[str], header: Sequence[str], source: Path
) -> tuple[Line, ...]:
    """Return the ratings in one row of a review sheet, or () if nobody filled it in.

    Other columns, such as the text under review, are ignored.
    """
    missing = [column for column in _SHEET_COLUMNS if header.count(column) != 1]
    if missing:
        raise SourceUnreadable(
            f"the review sheet {source} must have each of the columns {', '.join(_SHEET_COLUMNS)}"
            f" exactly once. Check {missing[0]}"
        )
    if len(row) != len(header):
        return (Line(number, tuple(row)),)
    fields = dict(zip(header, (cell.strip() for cell in row), strict=True))
    values = {
        name.removeprefix(SHEET_VALUE): value
        for name, value in fields.items()
        if name.startswith(SHEET_VALUE) and value
    }
    key = fields["episode_id"], fields.get("turn", "0"), fields["rubric"]
    return tuple(
        Line(number, (*key, dimension, fields["rater"], value))
        for dimension, value in values.items()
    )


def _in_order(row: Sequence[str], order: Sequence[int]) -> tuple[str, ...]:
    return tuple(row[index].strip() for index in order) if len(row) == len(order) else tuple(row)


def read_ratings(
    source: Path, lines: Sequence[Line], episodes: Mapping[str, RatedEpisode]
) -> RatingFile:
    """Return the valid ratings of known episodes, and the other rows with their reasons.

    A second row of the same rater for the same item is a duplicate. If two such rows differ, both
    are quarantined, since the rater's intention is unknown.

    Args:
        source: Rating file, for the quarantine.
        lines: Rows of the file.
        episodes: Episodes in the lake that the lines mention, by id.
    """
    numeric = _numeric_dimensions(lines)
    by_key: dict[tuple[str, tuple[str, int, str, str]], list[tuple[Line, Rating]]] = {}
    bad: list[tuple[Line, BadRating]] = []
    for line in lines:
        try:
            rating = _rating(line, episodes, numeric)
            by_key.setdefault((rating.rater, rating.key), []).append((line, rating))
        except BadRating as fault:
            bad.append((line, fault))
    for rows in by_key.values():
        agree = all(rating == rows[0][1] for _, rating in rows)
        surplus, rows[:] = (rows[1:], rows[:1]) if agree else (tuple(rows), [])
        numbers = ", ".join(str(line.number) for line, _ in (*rows, *surplus))
        detail = f"the rows on lines {numbers} rate the same item"
        bad += [
            (line, BadRating("duplicate" if agree else "contradiction", detail))
            for line, _ in surplus
        ]
    bad.sort(key=lambda row: row[0].number)
    return RatingFile(
        tuple(rating for rows in by_key.values() for _, rating in rows),
        tuple(
            QuarantinedRow(
                benchmark=QUARANTINE,
                dataset_version=source.name,
                source_file=source.name,
                source_line=line.number,
                reason=fault.reason,
                detail=fault.detail,
                excerpt=",".join(line.fields)[:EXCERPT_LENGTH],
            )
            for line, fault in bad
        ),
        len(lines),
    )


def _rating(
    line: Line, episodes: Mapping[str, RatedEpisode], numeric: Mapping[tuple[str, str], bool]
) -> Rating:
    """Return a line's rating. `numeric`: whether values of a (rubric, dimension) are numbers."""
    if len(line.fields) != len(COLUMNS):
        raise BadRating(
            "wrong_columns", f"{len(line.fields)} fields where the header has {len(COLUMNS)}"
        )
    empty = [column for column in COLUMNS if not line[column] and column != "dimension"]
    if empty:
        raise BadRating("missing_field", f"{', '.join(empty)}: empty")
    odd = [
        name
        for name in ("rubric", "dimension", "rater")
        if len(line[name]) > MOST_LETTERS or not is_plain_name(line[name])
    ]
    if odd:
        raise BadRating(
            "bad_name",
            f"{', '.join(odd)}: a name has at most {MOST_LETTERS} characters, all of them visible",
        )
    episode = episodes.get(line["episode_id"])
    if episode is None:
        raise BadRating(
            "unknown_episode",
            f"no episode of this home has the id {line['episode_id']!r}. Write the complete id",
        )
    turn = int(line["turn"]) if line["turn"].isascii() and line["turn"].isdecimal() else None
    if turn is None or (turn and turn not in episode.turns):
        last = max(episode.turns, default=0)
        raise BadRating(
            "bad_turn",
            f"turn {line['turn']!r}: the episode has turns 1 to {last}; use 0 for the dialogue as a"
            " whole",
        )
    scale, number = _scale(line, episode), _number(line["value"])
    is_number = numeric[line["rubric"], line["dimension"]]
    if is_number and (number is None or not math.isfinite(number)):
        raise BadRating(
            "bad_number",
            f"value {line['value']!r}: this dimension has numeric values, such as 4.5",
        )
    if fault := scale.fault_of(number if is_number and number is not None else line["value"]):
        raise BadRating("out_of_range", fault)
    return Rating(
        rater=line["rater"],
        benchmark=episode.benchmark,
        episode_id=line["episode_id"],
        turn=turn,
        rubric=line["rubric"],
        dimension=line["dimension"],
        value=number if is_number else None,
        label=None if is_number else line["value"],
    )


def _scale(line: Line, episode: RatedEpisode) -> RatingScale:
    """Return the scale of the rubric's dimension that a line names.

    If the benchmark has no rubrics, a line may name any, and the scale has no ends.
    """
    if episode.scales is None:
        return RatingScale()
    dimensions = episode.scales.get(line["rubric"])
    if dimensions is None:
        names = ", ".join(sorted(episode.scales))
        raise BadRating(
            "unknown_rubric",
            f"{line['rubric']!r} is not a rubric of {episode.benchmark}. Use one of {names}",
        )
    if line["dimension"] not in dimensions:
        names = ", ".join(map(repr, dimensions))
        raise BadRating(
            "unknown_dimension",
            f"{line['dimension']!r} is not a dimension of {line['rubric']}. Use one of {names}",
        )
    return dimensions[line["dimension"]]


def _numeric_dimensions(lines: Sequence[Line]) -> dict[tuple[str, str], bool]:
    """Return (rubric, dimension) -> True if most of its values are numbers.

    In a numeric dimension, other values are errors. Otherwise all values are words.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if len(line.fields) == len(COLUMNS) and line["value"]:
            counts[line["rubric"], line["dimension"]] += -1 if _number(line["value"]) is None else 1
    return {rated: count >= 0 for rated, count in counts.items()}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_PART = "all"


ScalesOf = Callable[[str], Scales | None]


@dataclass(frozen=True)
class Imported:
    """Result of one import. `n_changed` counts ratings that are new or differ from stored ones."""

    file: RatingFile
    n_changed: int


def import_ratings(
    home: Home, source: Path, scales_of: ScalesOf = lambda benchmark: None
) -> Imported:
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
