"""Tests of marts. The YAML file next to a mart's SQL states them. Every publication runs them.

tests:
  unique: [run_id, metric]                  # no two rows are equal in these columns
  within: {n: [0, null], share: [0, 1]}     # lowest and highest value, both included; NULL passes
  accepted: {role: [subject, judge]}        # values of a column
  holds: [n_passed <= n]                    # conditions that are true or NULL in every row
  relations: {run_id: runs.run_id}          # each value occurs in a column of another table
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from warehouse.connect import identifier, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def faults(
    connection: "DuckDBPyConnection", table: str, tests: Mapping[str, Any], where: str = "true"
) -> Iterator[str]:
    """Yield a sentence for each test that rows of a mart fail.

    Args:
        tests: kind of test -> its arguments.
        where: condition on the rows to test.
    """
    source = f"{identifier(table)} where {where}"
    conditions = dict(_conditions(tests))
    if conditions:
        counted = ", ".join(
            f"count(*) filter (not ({condition}))" for condition in conditions.values()
        )
        [counts] = connection.execute(f"select {counted} from {source}").fetchall()
        for (test, _), n in zip(conditions.items(), counts, strict=True):
            if n:
                yield f"{table}: {test} fails in {n} rows"
    if key := tests.get("unique"):
        columns = ", ".join(map(identifier, key))
        repeated = connection.execute(
            f"select {columns} from {source} group by all having count(*) > 1 limit 1"
        ).fetchall()
        if repeated:
            yield f"{table}: unique {', '.join(key)} fails, first at {repeated[0]}"


def _conditions(tests: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for column, (low, high) in tests.get("within", {}).items():
        bounds = [
            f"{identifier(column)} {sign} {bound}"
            for sign, bound in ((">=", low), ("<=", high))
            if bound is not None
        ]
        yield f"{column} within [{low}, {high}]", " and ".join(bounds)
    for column, values in tests.get("accepted", {}).items():
        yield (
            f"{column} accepted {values}",
            f"{identifier(column)} in ({', '.join(map(quoted, values))})",
        )
    for condition in tests.get("holds", ()):
        yield f"holds {condition}", condition
    for column, other in tests.get("relations", {}).items():
        table, _, name = other.partition(".")
        yield (
            f"{column} in {other}",
            f"{identifier(column)} in (select {identifier(name)} from {identifier(table)})",
        )
