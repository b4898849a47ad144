"""Rules that hold for every SQL file: warehouse/sql and the benchmarks' marts."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

from schemas.lake.tables import LOADED
from warehouse import sql_files
from warehouse.marts import SHARED
from warehouse.publication import migrate
from warehouse.publication.load import ONE_ROW_PER, targets
from warehouse.publication.update import RULES

FOLDERS = ("ddl", "staging", "soundness", "marts", "queries", "saved")


def all_sql() -> list[Traversable]:
    ours = [item for folder in FOLDERS for item in (files("warehouse") / "sql" / folder).iterdir()]
    benchmarks = [
        item for item in (files("tasks") / "benchmarks").iterdir() if (item / "marts").is_dir()
    ]
    theirs = [item for benchmark in benchmarks for item in (benchmark / "marts").iterdir()]
    return [item for item in (*ours, *theirs) if not item.name.endswith(".yml")]


@pytest.mark.parametrize("file", all_sql(), ids=lambda file: file.name)
def test_a_file_is_one_statement_with_its_grain_in_line_1(file: Traversable) -> None:
    import duckdb

    assert file.name.endswith(".sql")
    text = file.read_text()
    first = text.splitlines()[0]
    assert re.match(r"-- One (row|value)\b.+\.$", first), first
    assert "\t" not in text
    assert max(len(line) for line in text.splitlines()) <= 130
    assert len(duckdb.extract_statements(text)) == 1
    assert not re.search(r"select\s+(distinct\s+)?(\w+\.)?\*", text), "name the columns"


def test_each_statement_has_its_place() -> None:
    assert set(sql_files.names("ddl")) <= {*migrate.DDL}
    assert sorted(SHARED) == list(sql_files.names("marts"))
    assert sorted(RULES) == list(sql_files.names("soundness"))
    assert {*sql_files.names("staging"), *ONE_ROW_PER} <= {
        target for table in LOADED for target in targets(table)
    }


@pytest.mark.slow
def test_the_version_names_all_that_shapes_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    current = migrate.current_version()
    assert current == migrate.current_version()
    monkeypatch.setattr(migrate, "FORMAT", migrate.FORMAT + 1)
    assert migrate.current_version() != current
