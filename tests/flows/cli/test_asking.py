"""Saved queries, files of a query's rows, the pager, and the pages of `parley help`."""

import csv
import io
from pathlib import Path

import pytest

from tests.flows.parley_command import parley
from tests.own_files import ROOT
from tests.warehouse.small_lake import SmallLake
from warehouse import sql_files
from warehouse.publication.publish import publish

SPLIT = ("@failures", "@faults")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = SmallLake(tmp_path_factory.mktemp("asking") / "home").write_all().home
    publish(home)
    return home


@pytest.mark.parametrize("name", sql_files.names("saved"))
def test_a_bundled_query_can_be_asked(published: Path, name: str) -> None:
    rows = parley(published, "sql", f"@{name}", "--json").json()
    assert bool(rows) == (
        name != "work"
    )  # this lake's runs were written by hand, so nobody worked on them


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
    assert "costs, failures, faults, leaderboard" in done.err


def test_csv_keeps_commas_quotes_and_lines_of_a_text(published: Path) -> None:
    done = parley(published, "sql", "select 'a,\"b\"\n<c>' as t, null as n, 0.5 as x", "--csv")
    assert list(csv.reader(io.StringIO(done.out))) == [["t", "n", "x"], ['a,"b"\n<c>', "", "0.5"]]


def test_parquet_keeps_types_and_what_is_missing(published: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "new" / "rows.parquet"
    done = parley(
        published,
        "sql",
        "select * from (values (1, 'a'), (null, 'b')) as t(n, s)",
        "--parquet",
        out,
    )
    assert done.code == 0, done.err
    assert pq.read_table(out).to_pylist() == [{"n": 1, "s": "a"}, {"n": None, "s": "b"}]


def test_a_query_that_is_refused_leaves_an_older_file(published: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    out.write_bytes(b"older")
    assert parley(published, "sql", "select nothing", "--parquet", out).code == 2
    assert parley(published, "sql", "select 1", "--parquet", out, "--csv").code == 2
    assert out.read_bytes() == b"older"


def test_a_terminal_gets_no_control_characters_and_a_pipe_gets_the_cells_as_stored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.cli.commands.read import print_csv

    hostile = "\x1b]0;owned\x07\u202eb\na\tb"
    print_csv(("t",), [(hostile,)])
    assert hostile in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_csv(("t",), [(hostile,)])
    assert capsys.readouterr().out == 't\n"]0;ownedb\na\tb"\n'
    assert "formula" in " ".join(parley(Path("home"), "sql", "--help").out.split())


def test_failures_are_failures_and_faults_are_faults(published: Path) -> None:
    outcomes = {
        name: {row["outcome"] for row in parley(published, "sql", name, "--json").json()}
        for name in SPLIT
    }
    assert outcomes == {"@failures": {"failed", "error"}, "@faults": {"infra"}}


def test_two_runs_of_a_model_are_told_apart(published: Path) -> None:
    for name in ("leaderboard", "unscored", "failures"):
        rows = parley(published, "sql", f"@{name}", "--json").json()
        assert len({row["run_id"] for row in rows if row["model"] == "openai:alpha"}) == 2


@pytest.fixture
def pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `$PAGER` writes what it is given; `$MANPAGER` is for man's pages."""
    shown = tmp_path / "shown"
    program = tmp_path / "pager"
    program.write_text(f"#!/bin/sh\ncat > {shown}\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setenv("PAGER", str(program))
    monkeypatch.setenv("MANPAGER", "false")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich: a terminal
    monkeypatch.setenv("LINES", "10")
    return shown


def test_what_is_longer_than_the_terminal_is_paged(
    pager: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.text.records import print_rows

    print_rows("", ["n"], [(n,) for n in range(3)], pager=True)
    print_rows("", ["n"], [(n,) for n in range(30)])
    assert not pager.exists()
    capsys.readouterr()
    print_rows("", ["n"], [(n,) for n in range(30)], pager=True)
    assert "29" in pager.read_text(encoding="utf-8")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("settings", [{"PAGER": ""}, {"PAGER": "/nothing/here"}])
def test_without_a_pager_all_is_printed(
    pager: Path,
    settings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from flows.text.records import print_rows

    for name, value in {**settings, "PATH": "/nothing"}.items():
        monkeypatch.setenv(name, value)
    print_rows("", ["n"], [(n,) for n in range(30)], pager=True)
    assert "29" in capsys.readouterr().out
    assert not pager.exists()


def test_help_prints_each_page_of_the_documentation_and_names_its_neighbours(
    published: Path,
) -> None:
    listed = dict(
        line.removeprefix("parley help ").split(maxsplit=1)
        for line in parley(published, "help").out.splitlines()
    )
    pages = {
        page.stem: page.read_text(encoding="utf-8")
        for page in (ROOT / "flows" / "text" / "topics").glob("*.md")
    }
    assert listed == {name: page.splitlines()[0].removeprefix("# ") for name, page in pages.items()}
    assert {"tutorial", "models", "settings", "resume", "withheld", "budgets"} <= listed.keys()
    for name, page in pages.items():
        shown = parley(published, "help", name).out
        assert [line for line in page.splitlines() if "](" not in line and line not in shown] == []
        assert "](" not in shown
    assert "thinking models (`parley help thinking`)" in parley(published, "help", "models").out
    assert "telemetry, thinking" in parley(published, "help", "weather").err
