"""Whatever a model can hold comes back from Arrow and Parquet as it went in."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.dialog import Dialog, Role, Turn
from schemas.errors import SchemaMismatch, UsageError
from schemas.lake.rows import check_version, from_arrow, to_arrow
from schemas.lake.tables import NAME_KEY, TABLES, VERSION_KEY, Table
from schemas.problem import QuarantinedRow
from tests.schemas.strategies import models

tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def through_parquet(data: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(data, file)
    file.seek(0)
    return pq.read_table(file)


@pytest.mark.slow
@tables
@settings(max_examples=40)
@given(data=st.data())
def test_model_to_arrow_and_back_is_the_same_model(table: Table, data: st.DataObject):
    rows = data.draw(st.lists(models(table.model), max_size=3))
    arrow = to_arrow(table.name, rows)
    assert arrow.schema.equals(table.schema, check_metadata=True)
    assert from_arrow(arrow, table.model) == rows


@pytest.mark.slow
@tables
@settings(max_examples=15)
@given(data=st.data())
def test_model_to_parquet_and_back_is_the_same_model(table: Table, data: st.DataObject):
    rows = data.draw(st.lists(models(table.model), min_size=1, max_size=3))
    read = through_parquet(to_arrow(table.name, rows))
    check_version(table.name, read.schema, "memory")
    assert from_arrow(read, table.model) == rows


@tables
def test_no_rows_are_a_table_with_the_full_schema(table: Table):
    read = through_parquet(to_arrow(table.name, []))
    assert read.num_rows == 0
    assert read.schema.names == list(table.model.model_fields)


@pytest.mark.slow
@tables
@settings(max_examples=10)
@given(data=st.data())
def test_rows_of_a_slice_are_those_rows(table: Table, data: st.DataObject):
    rows = data.draw(st.lists(models(table.model), min_size=3, max_size=4))
    assert from_arrow(to_arrow(table.name, rows).slice(1, 2), table.model) == rows[1:3]


@given(
    text=st.text(
        st.characters(categories=["Cs"]) | st.characters(codec="utf-8"), min_size=1, max_size=8
    )
)
def test_text_that_utf8_cannot_hold_is_replaced_and_the_rest_is_kept(text: str):
    turn = Turn(turn=1, role=Role.USER, content=text, labels=(("k", text),))
    dialog = Dialog(
        benchmark="b",
        dataset_version="v",
        dialog_id=text,
        problem_id="p",
        turns=(turn,),
        row_digest="0",
        labels=((text, ""),),
    )
    clean = "".join("?" if "\ud800" <= c <= "\udfff" else c for c in text)
    (back,) = from_arrow(to_arrow("dialogs", [dialog]), Dialog)
    assert (back.dialog_id, back.turns[0].content, back.turns[0].labels, back.labels) == (
        clean,
        clean,
        (("k", clean),),
        ((clean, ""),),
    )


def test_rows_of_another_model_are_refused():
    row = QuarantinedRow(
        benchmark="b", dataset_version="v", source_file="f", source_line=0, reason="r", detail="d"
    )
    with pytest.raises(TypeError, match="table dialogs holds Dialog rows, not QuarantinedRow"):
        to_arrow("dialogs", [row])


def test_a_file_of_another_version_is_refused_with_both_versions_and_a_remedy():
    schema = TABLES["scores"].schema.with_metadata({NAME_KEY: b"scores", VERSION_KEY: b"999"})
    with pytest.raises(SchemaMismatch) as refused:
        check_version("scores", schema, "lake/part-0.parquet")
    message = str(refused.value)
    for part in (
        "lake/part-0.parquet",
        "999",
        f"version {TABLES['scores'].version}",
        "newer Parley",
    ):
        assert part in message
    assert isinstance(refused.value, UsageError)


@pytest.mark.parametrize(
    "metadata", [None, {}, {NAME_KEY: b"scores"}, {NAME_KEY: b"episodes", VERSION_KEY: b"1"}]
)
def test_a_file_that_is_not_that_table_is_refused(metadata: dict[bytes, bytes] | None):
    with pytest.raises(SchemaMismatch):
        check_version(
            "scores", TABLES["scores"].schema.with_metadata(metadata), "lake/part-0.parquet"
        )


@tables
def test_a_file_of_this_version_is_accepted(table: Table):
    check_version(table.name, table.schema, "lake/part-0.parquet")
