"""A lake of an older schema version is refused with the command to type, and that command brings it
up to date.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from flows.cli.app import app
from schemas.errors import SchemaMismatch
from schemas.lake.records import RunRecord
from schemas.lake.tables import TABLES, VERSION_KEY
from tasks.storage.parquet_store import Lake
from tasks.storage.run_rows import EpisodeFiles
from tests.warehouse.conftest import Marts
from tests.warehouse.small_lake import SmallLake
from warehouse.connect import query
from warehouse.lake import SEALED, run_seal
from warehouse.publication.publish import publish

REMEDY = "parley publish --migrate"
SHOWN = "select run_id, metric, mean, n from leaderboard order by all"


@pytest.fixture
def parley(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line on that lake."""
    monkeypatch.setenv("PARLEY_HOME", str(lake.home))
    monkeypatch.setattr("sys.argv", ["parley"])
    return lambda *arguments: CliRunner().invoke(app, arguments)


def as_version(path: Path, version: int, without: tuple[str, ...] = ()) -> None:
    """Write a part as another version would have: under its number, without the columns that came
    later.
    """
    rows = pq.read_table(path)
    kept = rows.drop_columns(list(without))
    pq.write_table(
        kept.replace_schema_metadata(
            {**(rows.schema.metadata or {}), VERSION_KEY: str(version).encode()}
        ),
        path,
    )


def without_nested(column: pa.ChunkedArray, *names: str) -> pa.Array:
    """A list of structs without some of their fields, wherever they lie."""
    rows = column.to_pylist()

    def cut(value: object) -> object:
        if isinstance(value, dict):
            return {name: cut(item) for name, item in value.items() if name not in names}
        return [cut(item) for item in value] if isinstance(value, list) else value

    return pa.array([cut(row) for row in rows])


def as_before_feedback(lake: SmallLake) -> None:
    """Dialogs, problems and episodes as version 1 had them."""
    for table, column, later in (
        ("problems", "instructions", ("kind",)),
        ("episodes", "steps", ("program", "feedback", "programs")),
    ):
        for part in parts(lake, table):
            rows = pq.read_table(part)
            place = rows.schema.get_field_index(column)
            older = rows.set_column(place, column, without_nested(rows[column], *later))
            assert not any(name in str(older.schema.field(column).type) for name in later)
            pq.write_table(
                older.replace_schema_metadata({**(rows.schema.metadata or {}), VERSION_KEY: b"1"}),
                part,
            )
    for part in parts(lake, "dialogs"):
        as_version(part, 1, ("problem_digest",))


def parts(lake: SmallLake, table: str) -> list[Path]:
    return Lake(lake.home / "lake").parts(table)


@pytest.mark.slow
def test_records_of_version_1_are_refused_with_a_command_that_works(
    lake: SmallLake, parley: Callable[..., Result], codeif_marts: Marts
) -> None:
    publish(lake.home, marts=codeif_marts)
    before = query(lake.home, SHOWN)[1]
    (lake.home / "warehouse.duckdb").unlink()
    for part in parts(lake, "runs"):
        as_version(part, 1, ("state", "work"))
    for part in parts(lake, "nights"):
        as_version(part, 1, ("work",))

    refused = parley("publish")
    assert isinstance(refused.exception, SchemaMismatch)
    said = str(refused.exception)
    current = f"version {TABLES['runs'].version}"
    for piece in (
        str(parts(lake, "runs")[0].parent.parent.parent),
        "schema version 1",
        current,
        REMEDY,
    ):
        assert piece in said
    assert not (lake.home / "warehouse.duckdb").exists()

    done = parley(*REMEDY.split()[1:])
    assert done.exit_code == 0, done.output
    assert f"{len(parts(lake, 'runs')) + 1} files converted" in done.output
    assert query(lake.home, SHOWN)[1] == before


@pytest.mark.slow
def test_a_model_whose_episodes_are_older_is_refused_and_its_run_stays_sealed(
    lake: SmallLake, parley: Callable[..., Result]
) -> None:
    run, store = lake.beta, Lake(lake.home / "lake")
    keys = {"benchmark": "codeif", "model": run.subject.label}
    wanted = [
        row["episode_id"]
        for row in store.read_arrow("episodes", store.parts("episodes", **keys)).to_pylist()
    ]
    as_before_feedback(lake)
    [record] = store.read("runs", RunRecord, **run.keys)
    seal = run_seal({table: store.folder(table, **run.keys) for table in SEALED})
    store.write_part(
        "runs", [record.model_copy(update={"state": tuple(seal.items())})], "run", **run.keys
    )

    with pytest.raises(
        SchemaMismatch,
        match=(
            r"schema version 1\. This Parley reads 'episodes' version "
            rf"{TABLES['episodes'].version}.*{REMEDY}"
        ),
    ):
        EpisodeFiles(store, **keys).finished(wanted)
    done = parley(*REMEDY.split()[1:])
    assert run.run_id not in done.output, "its seal was renewed with its files"
    assert EpisodeFiles(store, **keys).finished(wanted).keys() == set(wanted)
    assert (
        query(lake.home, "select count(*) from turns where run_id = $run", {"run": run.run_id})[1][
            0
        ][0]
        > 0
    )
    shown = (
        "select distinct instructions[1].suite.kind, problem_digest from problems join dialogs "
        "using (problem_id)"
    )
    assert query(lake.home, shown)[1] == [("statements", "")]


@pytest.mark.slow
def test_what_no_default_can_fill_is_named_and_set_aside_only_if_asked(
    lake: SmallLake, parley: Callable[..., Result]
) -> None:
    [part] = [part for part in parts(lake, "runs") if lake.beta.run_id in str(part)]
    as_version(part, 1, ("state", "work", "parley_version"))
    refused = parley("publish", "--migrate")
    assert refused.exit_code
    assert "parley publish --migrate --set-aside" in str(refused.exception)
    assert str(part) in refused.output
    assert "parley_version" in refused.output
    assert part.exists()

    done = parley("publish", "--migrate", "--set-aside")
    assert done.exit_code == 0, done.output
    assert (lake.home / "set-aside" / part.relative_to(lake.home / "lake")).exists()
    assert not part.exists()
    assert len(query(lake.home, "select run_id from runs where status = 'finished'")[1]) == 2


def test_what_a_newer_parley_wrote_is_left_alone(
    lake: SmallLake, parley: Callable[..., Result]
) -> None:
    for part in parts(lake, "runs"):
        as_version(part, 9)
    before = [part.read_bytes() for part in parts(lake, "runs")]
    refused = parley("publish", "--migrate")
    assert "A newer Parley wrote it: install that version" in str(refused.exception)
    assert [part.read_bytes() for part in parts(lake, "runs")] == before
