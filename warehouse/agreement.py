"""Makes the table `agreement`: how far people agree with each other, and with the judges."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from warehouse import sql_files
from warehouse.kappa import Mark, kappa, weighted_kappa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CONSENSUS = "consensus"
Marks = Mapping[tuple[str, int], Mark]
"""(episode, turn) -> rating."""
Row = tuple[str | int | float | None, ...]


def refresh_agreement(connection: "DuckDBPyConnection") -> None:
    """Make all rows anew of the ratings and judgements that the file holds now."""
    people, judges = _read(connection, "rated_by_people"), _read(connection, "rated_by_judges")
    rows = [row for rated in people for row in _rows_of(rated, people[rated], judges.get(rated, {}))]
    connection.execute("delete from agreement")
    if rows:
        connection.executemany(f"insert into agreement values ({', '.join('?' * len(rows[0]))})", rows)


def _read(connection: "DuckDBPyConnection", name: str) -> dict[tuple[str, str], dict[str, dict[tuple[str, int], Mark]]]:
    """(rubric, dimension) -> who -> marks."""
    found: dict[tuple[str, str], dict[str, dict[tuple[str, int], Mark]]] = {}
    for rubric, dimension, who, episode, turn, value, label in connection.execute(
        sql_files.load("queries", name).statement
    ).fetchall():
        marks = found.setdefault((rubric, dimension), {}).setdefault(who, {})
        marks[episode, turn] = label if value is None else value
    return found


def _rows_of(rated: tuple[str, str], people: Mapping[str, Marks], judges: Mapping[str, Marks]) -> list[Row]:
    pairs = [("raters", a, b, people[a], people[b]) for a, b in combinations(sorted(people), 2)]
    pairs += [("rater_judge", a, b, people[a], judges[b]) for a in sorted(people) for b in sorted(judges)]
    if len(people) > 1:
        agreed = consensus(tuple(people.values()))
        pairs += [("consensus_judge", CONSENSUS, b, agreed, judges[b]) for b in sorted(judges)]
    return [_row(rated, pair, a, b, first, second) for pair, a, b, first, second in pairs if first]


def consensus(people: Sequence[Marks]) -> dict[tuple[str, int], Mark]:
    """The raters' common mark of each thing that two or more of them rated.

    Numbers: their median, the lower of the two middle ones, which is a mark that someone gave. Words: the one that more raters
    chose than any other; none where two words tie.
    """
    given: dict[tuple[str, int], list[Mark]] = {}
    for marks in people:
        for thing, mark in marks.items():
            given.setdefault(thing, []).append(mark)
    common = {thing: _common(marks) for thing, marks in given.items() if len(marks) > 1}
    return {thing: mark for thing, mark in common.items() if mark is not None}


def _common(marks: Sequence[Mark]) -> Mark | None:
    numbers = [mark for mark in marks if not isinstance(mark, str)]
    if len(numbers) == len(marks):
        return statistics.median_low(numbers)
    (word, most), *others = Counter(marks).most_common()
    return None if others and others[0][1] == most else word


def _row(rated: tuple[str, str], pair: str, a: str, b: str, first: Marks, second: Marks) -> Row:
    """`n_missing`: things that only one of two raters rated; or that a person rated, and the judge did not."""
    both = sorted(first.keys() & second.keys())
    marked = [(thing[0], first[thing], second[thing]) for thing in both]
    plain, weighted = kappa(marked), weighted_kappa(marked)
    missing = first.keys() ^ second.keys() if pair == "raters" else first.keys() - second.keys()
    return (
        *(*rated, pair, a, b),
        *(len(both), len(missing), len({episode for episode, _ in both})),
        sum(x == y for _, x, y in marked) / len(both) if both else None,
        *(plain.value, plain.low, plain.high, plain.undefined_because),
        *(weighted.value, weighted.low, weighted.high, weighted.undefined_because),
    )
