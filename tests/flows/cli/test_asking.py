"""Saved queries, files of a query's rows, the pager, and the pages of `parley help`."""

import csv
import io
from pathlib import Path

import pytest

from tests.flows.parley_command import parley
from tests.warehouse.small_lake import SmallLake
from warehouse import sql_files
from warehouse.publish import publish


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = SmallLake(tmp_path_factory.mktemp("asking") / "home").write_all().home
    publish(home)
    return home


@pytest.mark.parametrize("name", sql_files.names("saved"))
def test_a_bundled_query_can_be_asked(published: Path, name: str) -> None:
    rows = parley(published, "sql", f"@{name}", "--json").json()
    assert bool(rows) == (name != "work")  # this lake's runs were written by hand, so nobody worked on them


def test_an_own_query_goes_before_a_bundled_one(published: Path) -> None:
    own = published / "queries" / "failures.sql"
    own.parent.mkdir()
    own.write_text("select 7 as seven", encoding="utf-8")
    assert parley(published, "sql", "@failures", "--json").json() == [{"seven": 7}]
    own.unlink()


@pytest.mark.parametrize("name", ["nothing", "../ddl/runs", ""])
def test_an_unknown_saved_query_is_named_with_those_there_are(published: Path, name: str) -> None:
    done = parley(published, "sql", f"@{name}")
    assert done.code == 2
    assert "costs, failures, leaderboard" in done.err


def test_csv_keeps_commas_quotes_and_lines_of_a_text(published: Path) -> None:
    done = parley(published, "sql", "select 'a,\"b\"\n<c>' as t, null as n, 0.5 as x", "--csv")
    assert list(csv.reader(io.StringIO(done.out))) == [["t", "n", "x"], ['a,"b"\n<c>', "", "0.5"]]


def test_parquet_keeps_types_and_what_is_missing(published: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "new" / "rows.parquet"
    done = parley(published, "sql", "select * from (values (1, 'a'), (null, 'b')) as t(n, s)", "--parquet", out)
    assert done.code == 0, done.err
    assert pq.read_table(out).to_pylist() == [{"n": 1, "s": "a"}, {"n": None, "s": "b"}]


def test_a_query_that_is_refused_leaves_an_older_file(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    out.write_bytes(b"older")
    assert parley(published, "sql", "select nothing", "--parquet", out).code == 2
    assert parley(published, "sql", "select 1", "--parquet", out, "--csv").code == 2
    assert out.read_bytes() == b"older"


def test_what_is_longer_than_the_terminal_is_paged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from flows.text.results import print_rows

    paged: list[str] = []
    monkeypatch.setattr("pydoc.pager", paged.append)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich: a terminal
    monkeypatch.setenv("LINES", "10")
    print_rows("", ["n"], [(n,) for n in range(3)], pager=True)
    assert not paged
    print_rows("", ["n"], [(n,) for n in range(30)])
    assert not paged
    capsys.readouterr()
    print_rows("", ["n"], [(n,) for n in range(30)], pager=True)
    assert "29" in paged[0]
    assert capsys.readouterr().out == ""


def test_help_answers_the_five_questions(published: Path) -> None:
    listed = parley(published, "help").out.splitlines()
    topics = [line.split()[2] for line in listed]
    assert topics == ["models", "settings", "resume", "withheld", "costs"]
    for topic in topics:
        assert len(parley(published, "help", topic).out) > 500
    assert "models, settings" in parley(published, "help", "weather").err
