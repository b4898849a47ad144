"""What readers can and cannot do."""

import re
import threading
from pathlib import Path

import pytest

from schemas.content_id import canonical_json
from schemas.errors import ParleyError, UnknownName, UsageError
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import DIGESTS
from warehouse import sql_files
from warehouse.connect import connect, named_query, query, table_digest
from warehouse.publish import publish


def test_no_warehouse_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no warehouse at .*warehouse\.duckdb.*`parley run`"):
        query(tmp_path, "select 1")


def test_a_damaged_file_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(ParleyError, match="parley publish --rebuild"):
        query(tmp_path, "select 1")


def test_a_home_with_quotes_in_its_path_is_read(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "it's [a] home*").write_all()
    publish(lake.home)
    assert query(lake.home, "select count(*) from runs")[1] == [(4,)]


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
def test_sql_cannot_write_or_leave_the_warehouse(published: SmallLake, tmp_path: Path, sql: str) -> None:
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


def test_a_new_connection_sees_the_new_file_while_an_old_one_stays_open(published: SmallLake) -> None:
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


def test_threads_read_at_once(published: SmallLake) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(query(published.home, "select count(*) from turns")[1][0][0]))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(found) == 6
    assert len(set(found)) == 1


def test_named_queries_of_a_run(published: SmallLake) -> None:
    run = published.alpha_2
    columns, rows = named_query(published.home, "result_table", run_ids=[published.beta.run_id, run.run_id])
    assert [dict(zip(columns, row, strict=True))["model"] for row in rows] == ["recorded:beta"] + ["openai:alpha"] * 4
    columns, rows = named_query(published.home, "run_record", run_id=run.run_id)
    assert dict(zip(columns, rows[0], strict=True))["spec_json"] == canonical_json(run.spec)
    assert [row[-1] for row in named_query(published.home, "run_costs", run_ids=[run.run_id])[1]] == [pytest.approx(0.0039)]


def test_named_query_of_a_transcript(published: SmallLake) -> None:
    episode = published.alpha_2.episode_id("P1", 0)
    columns, rows = named_query(published.home, "transcript", episode_id=episode)
    said = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [(step["turn"], step["role"]) for step in said] == [(t, r) for t in (1, 2, 3) for r in ("user", "assistant")]
    assert said[1]["content"] == "answer 1 of attempt 2"
    found = named_query(published.home, "find_episodes", episode_id=episode[:12])[1]
    assert [row[:2] for row in found] == [(episode, published.alpha_1.run_id)]
    verdicts = named_query(published.home, "transcript_verdicts", episode_id=episode, run_id=published.alpha_2.run_id)[1]
    assert [row[:3] for row in verdicts] == [
        (1, "base", "passed"),
        (2, "Input-Output Conditions", "failed"),
        (3, "Functionality Extension", "passed"),
    ]


def test_lists_show_withheld_runs_and_all_models(published: SmallLake) -> None:
    columns, rows = named_query(published.home, "list_runs")
    listed = [dict(zip(columns, row, strict=True)) for row in rows]
    assert listed[0]["run_id"] == published.alpha_1.run_id
    assert {row["status"] for row in listed if row["model"] == "openai:gamma/7b=x"} == {"withheld"}
    assert [row[0] for row in named_query(published.home, "list_models")[1]] == [
        "openai:alpha",
        "openai:gamma/7b=x",
        "recorded:beta",
    ]
    assert len(named_query(published.home, "list_metrics")[1]) == 4
    assert len(named_query(published.home, "failed_checks", run_id=published.gamma.run_id)[1]) == 1


def test_every_query_runs(published: SmallLake) -> None:
    values = {
        "run_id": published.beta.run_id,
        "run_ids": [published.beta.run_id],
        "episode_id": published.beta.episode_id("P1", 0),
    }
    for name in sql_files.names("queries"):
        taken = set(re.findall(r"\$(\w+)", sql_files.load("queries", name).statement))
        columns, rows = named_query(published.home, name, **{key: values[key] for key in taken})
        assert columns, name
        assert rows or name == "failed_checks", name


def test_an_unknown_query_lists_what_there_is(published: SmallLake) -> None:
    with pytest.raises(UnknownName, match="list_runs"):
        named_query(published.home, "no_such_query")


def test_a_missing_parameter_is_a_usage_error(published: SmallLake) -> None:
    with pytest.raises(UsageError, match="run_id"):
        named_query(published.home, "run_record")


def test_digest_depends_on_rows_and_not_on_their_order(published: SmallLake) -> None:
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        connection.execute("create table a as select * from (values (1, null), (2, 'null')) as t(x, y)")
        connection.execute("create table b as select * from a order by x desc")
        connection.execute("create table c as select x, coalesce(y, 'null') as y from a")
        assert table_digest(connection, "a") == table_digest(connection, "b") != table_digest(connection, "c")
    finally:
        connection.close()


def test_problems_keep_their_nested_columns(published: SmallLake) -> None:
    rows = query(
        published.home,
        "select problem_id, level, instructions[2].instruction_id, instructions[1].suite.tests, row_digest from problems"
        " order by problem_id",
    )[1]
    tests = ["assert f(1) == 1"]
    assert rows == [
        ("P1", "L1", "Input-Output Conditions", tests, DIGESTS["P1"]),
        ("P2", "L1", "Exception Handling", tests, DIGESTS["P2"]),
        ("P3", "L2", "Input-Output Conditions", tests, DIGESTS["P3"]),
    ]
