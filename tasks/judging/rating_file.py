"""Reads a file of people's ratings: each row is a rating, or is quarantined with its reason."""

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import SourceUnreadable
from schemas.outside.display import is_plain_name
from schemas.problem import QuarantinedRow
from schemas.rating import Rating
from tasks.judging.rating_scales import RatingScale, Scales

COLUMNS = ("episode_id", "turn", "rubric", "dimension", "rater", "value")
SHEET_VALUE = "value:"
"""Begins the name of a review sheet's column that holds the values of a dimension."""
_SHEET_COLUMNS = ("episode_id", "rubric", "rater")
QUARANTINE = "ratings"
"""Stands in the quarantine's column `benchmark`; the file's name stands in `dataset_version`."""
MOST_LETTERS = 60
EXCERPT_LENGTH = 200


class BadRating(ValueError):
    """A row that is no rating; `reason` is the machine-readable name."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class RatedEpisode:
    """An episode that can be rated: of which benchmark it is, and which turns it has."""

    benchmark: str
    turns: frozenset[int]
    scales: Scales | None = None
    """Of the rubrics by which it is rated; None where nothing is known of them."""


@dataclass(frozen=True)
class Line:
    """One row of the file, by column, with the number of its last line."""

    number: int
    fields: tuple[str, ...]

    def __getitem__(self, column: str) -> str:
        return self.fields[COLUMNS.index(column)]


@dataclass(frozen=True)
class RatingFile:
    """What a file holds: `len(ratings) + len(quarantined) == n_input`, always."""

    ratings: tuple[Rating, ...]
    quarantined: tuple[QuarantinedRow, ...]
    n_input: int


def read_lines(source: Path) -> tuple[Line, ...]:
    """The file's rows, columns in the order of `COLUMNS`. Empty lines are left out.

    A review sheet, which has a column `value:DIMENSION` for each dimension, gives a row for each value that is filled in.

    Raises:
        SourceUnreadable: no CSV in UTF-8, or without exactly these columns; no review sheet either.
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
                    for line in _of_sheet(number, row, header, source)
                )
            order = _order(header, source)
            rows = ((reader.line_num, row) for row in reader if row)
            return tuple(Line(number, _ordered(row, order)) for number, row in rows)
    except UnicodeDecodeError as error:
        raise SourceUnreadable(
            f"{source} is not UTF-8 ({error.reason} at byte {error.start}): save it as CSV in UTF-8"
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
            f"has also {', '.join(map(repr, extra))}"
        ] * bool(extra)
        raise SourceUnreadable(
            f"the first line of {source} {' and '.join(faults)}. It names the columns, separated by commas: {','.join(COLUMNS)}"
        )
    return tuple(header.index(column) for column in COLUMNS)


def _of_sheet(
    number: int, row: Sequence[str], header: Sequence[str], source: Path
) -> tuple[Line, ...]:
    """The ratings of one row of a review sheet; none where nobody filled it in. Other columns are for the reader's eyes."""
    missing = [column for column in _SHEET_COLUMNS if header.count(column) != 1]
    if missing:
        raise SourceUnreadable(
            f"the review sheet {source} needs one column each for {', '.join(_SHEET_COLUMNS)}: see {missing[0]}"
        )
    if len(row) != len(header):
        return (Line(number, tuple(row)),)
    fields = dict(zip(header, (cell.strip() for cell in row), strict=True))
    values = {
        name.removeprefix(SHEET_VALUE): value
        for name, value in fields.items()
        if name.startswith(SHEET_VALUE) and value
    }
    named = fields["episode_id"], fields.get("turn", "0"), fields["rubric"]
    return tuple(
        Line(number, (*named, dimension, fields["rater"], value))
        for dimension, value in values.items()
    )


def _ordered(row: Sequence[str], order: Sequence[int]) -> tuple[str, ...]:
    return tuple(row[place].strip() for place in order) if len(row) == len(order) else tuple(row)


def read_ratings(
    source: Path, lines: Sequence[Line], episodes: Mapping[str, RatedEpisode]
) -> RatingFile:
    """Ratings of known episodes; the other rows with their reasons.

    A rater's second row on the same thing is a duplicate. Where the two differ, neither is kept: nobody knows which one counts.

    Args:
        episodes: the episodes that the lake has, among those that the lines name.
    """
    numeric = _numeric(lines)
    kept: dict[tuple[str, tuple[str, int, str, str]], list[tuple[Line, Rating]]] = {}
    bad: list[tuple[Line, BadRating]] = []
    for line in lines:
        try:
            rating = _rating(line, episodes, numeric)
            kept.setdefault((rating.rater, rating.key), []).append((line, rating))
        except BadRating as fault:
            bad.append((line, fault))
    for rows in kept.values():
        agree = all(rating == rows[0][1] for _, rating in rows)
        surplus, rows[:] = (rows[1:], rows[:1]) if agree else (tuple(rows), [])
        where = f"the rows on lines {', '.join(str(line.number) for line, _ in (*rows, *surplus))} rate the same thing"
        bad += [
            (line, BadRating("duplicate" if agree else "contradiction", where))
            for line, _ in surplus
        ]
    bad.sort(key=lambda one: one[0].number)
    return RatingFile(
        tuple(rating for rows in kept.values() for _, rating in rows),
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
            f"no episode of this home has the id {line['episode_id']!r}: give it whole",
        )
    turn = int(line["turn"]) if line["turn"].isascii() and line["turn"].isdecimal() else None
    if turn is None or (turn and turn not in episode.turns):
        last = max(episode.turns, default=0)
        raise BadRating(
            "bad_turn",
            f"turn {line['turn']!r}: the episode has the turns 1 to {last}; 0 is the whole dialogue",
        )
    scale = _scale(line, episode)
    number = _number(line["value"])
    if numeric[line["rubric"], line["dimension"]] and (number is None or not math.isfinite(number)):
        raise BadRating(
            "bad_number",
            f"value {line['value']!r}: this dimension has numbers; 4.5 is written with a point",
        )
    is_number = numeric[line["rubric"], line["dimension"]]
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
    """Return the scale of a line's dimension. A benchmark without rubrics of its own is rated by any."""
    if episode.scales is None:
        return RatingScale()
    dimensions = episode.scales.get(line["rubric"])
    if dimensions is None:
        known = ", ".join(sorted(episode.scales))
        raise BadRating(
            "unknown_rubric",
            f"{line['rubric']!r} is no rubric of {episode.benchmark}: it has {known}",
        )
    if line["dimension"] not in dimensions:
        known = ", ".join(map(repr, dimensions))
        raise BadRating(
            "unknown_dimension",
            f"{line['dimension']!r} is no dimension of {line['rubric']}: it has {known}",
        )
    return dimensions[line["dimension"]]


def _numeric(lines: Sequence[Line]) -> dict[tuple[str, str], bool]:
    """(rubric, dimension) -> whether most of its values are numbers: then the others are mistakes, else all are words."""
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
