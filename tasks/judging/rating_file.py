"""Reader for files with people's ratings.

Each row becomes a rating or is quarantined with a reason.
"""

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import SourceUnreadable
from schemas.outside.display import is_plain_name
from schemas.problem import QuarantinedRow
from schemas.verdict import Rating
from tasks.judging.rubric import RatingScale, Scales

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
    scale = _scale(line, episode)
    number = _number(line["value"])
    if numeric[line["rubric"], line["dimension"]] and (number is None or not math.isfinite(number)):
        raise BadRating(
            "bad_number",
            f"value {line['value']!r}: this dimension has numeric values, such as 4.5",
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
