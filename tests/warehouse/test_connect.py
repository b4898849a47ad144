"""What readers can and cannot do."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import warehouse.connect
from schemas.errors import ParleyError, UnknownName, UsageError
from tests.warehouse.digests import table_digest
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import DIGESTS
from warehouse.connect import connect, named_query, query, shown_runs, warehouse_path
from warehouse.publication.publish import publish

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def test_no_warehouse_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there is no warehouse at .*warehouse\.duckdb.*`parley run`"
    ):
        query(tmp_path, "select 1")


def test_a_damaged_file_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(ParleyError, match="parley publish --rebuild"):
        query(tmp_path, "select 1")


def replaced_while_opened(
    monkeypatch: pytest.MonkeyPatch, home: Path, times: int, *, fails: bool
) -> None:
    """The next openings meet a publication: what they opened is a file no more, or of no use."""
    opened, left = warehouse.connect._attached, iter(range(times))  # pyright: ignore[reportPrivateUsage]  (the step that a publication is to meet)

    def attached(path: Path) -> "DuckDBPyConnection":
        connection = opened(path)
        if next(left, None) is not None:
            publish(home, rebuild=True)
            if fails:
                connection.close()
                raise duckdb.IOException("Could not read enough bytes")
        return connection

    monkeypatch.setattr(warehouse.connect, "_attached", attached)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_a_file_that_is_replaced_while_it_is_opened_is_opened_again(
    published: SmallLake, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    with connect(published.home) as before:
        count = "select count(distinct run_id) from leaderboard"
        assert before.execute(count).fetchall() == [(3,)]
    published.write_simple(published.gamma)
    replaced_while_opened(monkeypatch, published.home, 2, fails=fails)
    assert query(published.home, "select count(distinct run_id) from leaderboard")[1] == [(4,)]


@pytest.mark.slow
def test_a_file_that_is_replaced_without_end_is_named(
    published: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced_while_opened(monkeypatch, published.home, 3, fails=False)
    monkeypatch.setattr(warehouse.connect, "_OPENINGS", 3)
    with pytest.raises(
        ParleyError, match=r"warehouse\.duckdb was replaced 3 times while it was opened"
    ):
        query(published.home, "select 1")


@pytest.mark.slow
def test_a_home_with_quotes_in_its_path_is_read(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "it's [a] home*").write_all()
    publish(lake.home)
    assert query(lake.home, "select count(*) from runs")[1] == [(4,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('{file}')",
        "select * from read_text('{file}')",
        "select * from glob('{folder}/*')",
        "copy runs to '{folder}/out.csv'",
        "export database '{folder}/out'",
        "attach '{folder}/other.duckdb'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "create table mine as select 1 as a",
        "delete from runs",
        "drop table scores",
        "select * from no_such_table",
        "selec 1",
    ],
)
def test_sql_cannot_write_or_leave_the_warehouse(
    published: SmallLake, tmp_path: Path, sql: str
) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="SQL on"):
        query(published.home, sql.format(file=file, folder=tmp_path))
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_sql_sees_no_python_variable(published: SmallLake) -> None:
    import pyarrow as pa

    api_keys = pa.table({"a": [1]})
    assert api_keys.num_rows == 1
    with pytest.raises(UsageError, match="api_keys"):
        query(published.home, "select * from api_keys")


@pytest.mark.slow
def test_a_new_connection_sees_the_new_file_while_an_old_one_stays_open(
    published: SmallLake,
) -> None:
    old = connect(published.home)
    try:
        published.write_simple(published.gamma)
        publish(published.home)
        count = "select count(distinct run_id) from scores"
        assert old.execute(count).fetchall() == [(3,)]
        assert query(published.home, count)[1] == [(4,)]
        assert old.execute(count).fetchall() == [(3,)]
    finally:
        old.close()


@pytest.mark.slow
def test_queries_share_a_connection_until_the_next_publication(
    published: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, paths = warehouse.connect._attached, list[Path]()  # pyright: ignore[reportPrivateUsage]  (the step that is counted)

    def attached(path: Path) -> "DuckDBPyConnection":
        paths.append(path)
        return opened(path)

    monkeypatch.setattr(warehouse.connect, "_attached", attached)
    count = "select count(distinct run_id) from scores"
    query(published.home, "create temp table mine as select 1")
    assert [query(published.home, count)[1] for _ in range(2)] == [[(3,)]] * 2
    with pytest.raises(UsageError, match="mine does not exist"):
        query(published.home, "select * from mine")
    assert len(paths) == 1
    published.write_simple(published.gamma)
    publish(published.home)
    assert query(published.home, count)[1] == [(4,)]
    assert len(paths) == 2


def test_threads_read_at_once(published: SmallLake) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(
                query(published.home, "select count(*) from turns")[1][0][0]
            )
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(found) == 6
    assert len(set(found)) == 1


def test_the_result_table_is_in_the_order_asked_for(published: SmallLake) -> None:
    columns, rows = named_query(
        published.home, "result_table", run_ids=[published.beta.run_id, published.alpha_2.run_id]
    )
    assert [dict(zip(columns, row, strict=True))["model"] for row in rows] == ["recorded:beta"] + [
        "openai:alpha"
    ] * 4


def test_an_unknown_query_lists_what_there_is(published: SmallLake) -> None:
    with pytest.raises(UnknownName, match="result_table"):
        named_query(published.home, "no_such_query")


def test_a_missing_parameter_is_a_usage_error(published: SmallLake) -> None:
    with pytest.raises(UsageError, match="run_ids"):
        named_query(published.home, "result_table")


@pytest.mark.slow
def test_shown_runs_are_the_finished_ones_as_published(published: SmallLake) -> None:
    before = {run.run_id: "2026-01-02T00:10:00Z" for run in (published.alpha_2, published.beta)}
    before[published.alpha_1.run_id] = "2026-01-03T00:00:00Z"
    assert shown_runs(published.home) == before
    published.beta.write_record(finished_at="2026-01-09T00:00:00Z")
    published.write_simple(published.gamma)
    assert shown_runs(published.home) == before
    publish(published.home)
    after = before | {
        published.beta.run_id: "2026-01-09T00:00:00Z",
        published.gamma.run_id: "2026-01-02T00:10:00Z",
    }
    assert shown_runs(published.home) == after


def test_a_warehouse_that_cannot_be_read_shows_no_runs(tmp_path: Path) -> None:
    assert shown_runs(tmp_path) == {}
    warehouse_path(tmp_path).write_bytes(b"not a database" * 1000)
    assert shown_runs(tmp_path) == {}
    warehouse_path(tmp_path).unlink()
    duckdb.connect(str(warehouse_path(tmp_path))).close()
    assert shown_runs(tmp_path) == {}


def test_digest_depends_on_rows_and_not_on_their_order(published: SmallLake) -> None:
    connection = duckdb.connect(":memory:")
    try:
        connection.execute(
            "create table a as select * from (values (1, null), (2, 'null')) as t(x, y)"
        )
        connection.execute("create table b as select * from a order by x desc")
        connection.execute("create table c as select x, coalesce(y, 'null') as y from a")
        assert (
            table_digest(connection, "a")
            == table_digest(connection, "b")
            != table_digest(connection, "c")
        )
    finally:
        connection.close()


def test_turns_show_the_feedback_that_was_given(published: SmallLake) -> None:
    rows = query(
        published.home,
        "select distinct turn, role, compilation_feedback, execution_feedback, "
        "verbal_feedback from turns"
        " where problem_id = 'P1' and turn <= 2 and role = 'user' order by turn",
    )[1]
    assert rows == [(1, "user", None, None, None), (2, "user", None, "P1 fails", None)]


def test_problems_keep_their_nested_columns(published: SmallLake) -> None:
    rows = query(
        published.home,
        "select problem_id, level, instructions[2].instruction_id, "
        "instructions[1].suite.tests, row_digest from problems"
        " order by problem_id",
    )[1]
    tests = ["assert f(1) == 1"]
    assert rows == [
        ("P1", "L1", "Input-Output Conditions", tests, DIGESTS["P1"]),
        ("P2", "L1", "Exception Handling", tests, DIGESTS["P2"]),
        ("P3", "L2", "Input-Output Conditions", tests, DIGESTS["P3"]),
    ]
