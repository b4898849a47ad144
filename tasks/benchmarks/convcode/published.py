"""Queries on the benchmark's tables in a published warehouse."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from schemas.errors import UsageError
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql


def query_marts(home: Path, name: str, run_ids: Sequence[str]) -> Rows:
    """Return the result of one of this folder's queries.

    Raises:
        UsageError: No run of this benchmark is published.
    """
    marts = query(
        home,
        "select table_name from information_schema.tables where table_name = 'convcode_settings'",
    )[1]
    if not marts:
        raise UsageError(
            f"no run of convcode is published in {home}. "
            "`parley run convcode.SETTING --model SPEC` creates one"
        )
    statement = read_sql(files("tasks.benchmarks.convcode") / "queries" / f"{name}.sql").statement
    return query(home, statement, {"run_ids": list(run_ids)})
