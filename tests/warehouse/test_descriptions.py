"""Every table, view and column of the warehouse has a description, and every mart has tests that
find wrong rows.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemas.base import field_texts
from schemas.lake.tables import LOADED
from tasks.benchmarks.registry import BENCHMARKS
from tests.flows.parley_command import parley
from tests.own_files import ROOT, own_files
from tests.warehouse.earlier_marts import differing_tables
from tests.warehouse.small_lake import SmallLake
from warehouse.intervals import register_intervals
from warehouse.marts import Mart, collect_marts, plan_marts, refresh_marts
from warehouse.publication.migrate import create_tables
from warehouse.publication.validate import mart_faults

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MARTS = collect_marts(
    [
        *(mart for name in BENCHMARKS.names() for mart in BENCHMARKS.load(name).results.marts),
        ROOT / "docs" / "examples" / "lost_in_conversation.sql",
    ]
)
TABLES = [mart for mart in MARTS if mart.table == mart.name]


@pytest.fixture(scope="module")
def empty() -> Iterator["DuckDBPyConnection"]:
    """A warehouse with the marts of all benchmarks, and no rows."""
    import duckdb

    with duckdb.connect() as connection:
        register_intervals(connection)
        create_tables(connection)
        connection.execute("begin")
        refresh_marts(connection, plan_marts(connection, MARTS), (), ())
        yield connection


def test_every_table_view_and_column_has_a_description(empty: "DuckDBPyConnection") -> None:
    tables = "select table_name, comment from duckdb_tables() where not temporary union all"
    views = " select view_name, comment from duckdb_views() where not internal and not temporary"
    found = dict(empty.execute(tables + views).fetchall())
    assert found.keys() >= {
        "scores",
        "steps",
        "results",
        "codeif_turns",
        "convcode_settings",
        "unidial_pooled",
        *LOADED,
    }
    columns = empty.execute(
        "select table_name || '.' || column_name, comment from duckdb_columns()"
        " where not internal and database_name = 'memory' and schema_name = 'main'"
    ).fetchall()
    assert [name for name, text in (*found.items(), *columns) if not text] == []
    assert len(columns) > 800


def test_the_queries_of_the_documentation_run(empty: "DuckDBPyConnection") -> None:
    queries = [
        query
        for page in own_files()
        if page.suffix == ".md"
        for query in re.findall(
            r'parley sql "([^".@][^"]*)"', page.read_text(encoding="utf-8").replace("\\\n", "")
        )
        if "..." not in query
    ]
    assert len(queries) > 15
    for query in queries:
        empty.execute(query)


def test_a_description_is_the_docstring_of_the_field(empty: "DuckDBPyConnection") -> None:
    where = "where table_name = 'nights' and column_name = 'budget'"
    [(text,)] = empty.execute(f"select comment from duckdb_columns() {where}").fetchall()
    assert text == " ".join(field_texts(LOADED["nights"].model)["budget"].split())


@pytest.mark.parametrize("mart", TABLES, ids=lambda mart: mart.name)
def test_every_mart_has_tests_and_they_name_its_columns(
    empty: "DuckDBPyConnection", mart: Mart
) -> None:
    assert mart.tests["unique"]
    assert mart.tests["relations"]
    assert list(mart_faults(empty, mart.name, mart.tests)) == []


def test_the_tests_find_wrong_rows(published: SmallLake) -> None:
    import duckdb

    wrong = {
        "insert into results select * from results limit 1": "unique run_id",
        "update results set n = -1": r"n within \[0, None\] fails",
        "update results set ci_low = 2 where ci_low is not null": "holds ci_low <= mean",
        "update results set run_id = 'x' where axis = 'all'": "run_id in runs.run_id",
    }
    [mart] = (mart for mart in TABLES if mart.name == "results")
    for statement, fault in wrong.items():
        with duckdb.connect(str(published.home / "warehouse.duckdb")) as connection:
            connection.execute("begin")
            assert list(mart_faults(connection, "results", mart.tests)) == []
            connection.execute(statement)
            assert re.search(fault, "; ".join(mart_faults(connection, "results", mart.tests)))
            connection.execute("rollback")


def test_wide_tables_hold_what_their_earlier_sql_made(published: SmallLake, tmp_path: Path) -> None:
    """Two levels, missing scores and several samples; other benchmarks' tables are compared where
    their runs are made.
    """
    assert differing_tables(published.home, tmp_path) == {}


def test_the_command_describes_a_table(published: SmallLake) -> None:
    rows = parley(published.home, "sql", ".describe codeif_turns", "--json").json()
    assert rows[:2] == [
        {
            "column": "run_id",
            "type": "VARCHAR",
            "description": "Id of the run; a digest of its specification.",
        },
        {"column": "benchmark", "type": "VARCHAR", "description": "Benchmark of the run."},
    ]
    assert {row["description"] for row in rows if row["column"] == "ia_low"} == {
        "Lower end of the 95% interval of `ia`."
    }
    unknown = parley(published.home, "sql", ".describe codeif_turn")
    assert (unknown.code, "codeif_turns" in unknown.err) == (2, True)
    assert "`.describe TABLE`" in parley(published.home, "sql", ".schema").err
