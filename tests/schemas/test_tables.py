"""A table's columns change with its version number, or not at all."""

import pyarrow as pa
import pytest
from pydantic import BaseModel

from schemas.content_id import content_id
from schemas.lake.tables import NAME_KEY, TABLES, VERSION_KEY, Table, arrow_type

PINNED: dict[str, tuple[int, str]] = {
    "dialogs": (3, "ebda4fe25218e54a2d02ebce97c80a42"),
    "problems": (3, "766f35a38c1f91656042815766937c7b"),
    "quarantine": (1, "a39c38b2ade83aaf1c81832fe8ec1ab1"),
    "episodes": (4, "c59662a92c28b8898a026a8d83431bef"),
    "test_verdicts": (3, "8cb33f0f56b267a53b7b331813389bac"),
    "forgery_audit": (1, "31f0fa9b33f49b0b8caee23f19f4f4be"),
    "judge_verdicts": (3, "209292b3636bfe8bd7cdff0259af2caf"),
    "judge_drift_answers": (1, "de63b94f6dc90fc0cf818d342027eb9e"),
    "scores": (1, "52428ceb3e7146541a39041ed0a740c4"),
    "runs": (8, "d5318e2d6d06aec7e9b42fb29bde8d51"),
    "run_episodes": (1, "e726a819fbe028de7d6eee0774c4fd10"),
    "quality_checks": (1, "755f04d80bd595cfcf7eff6f0e23db26"),
    "models": (2, "3d71cff171d295240319508781b40714"),
    "served_hours": (1, "e11a1b18e1a3f27933a0545a9a99689b"),
    "nights": (5, "2d86e706cb977f9819f3cc7e6e0c133d"),
    "checkpoints": (1, "fdeeea56622a8b9cc7008dc2c7c011c4"),
    "embeddings": (1, "173142547dafcef53ba54ad93c39df5d"),
    "ratings": (1, "ea15d528bf720e51c0e08d58ad10adb7"),
    "contexts": (1, "890830ca6dc001b83afdd060db9a5455"),
    "comparison_rules": (1, "d48bb3c615f8e1d3fdf3b25e3b12273f"),
    "decisions": (1, "bed56279745a73313c319cb791ef4365"),
    "releases": (2, "df083b81cc3f412f8feea7719bc30fed"),
    "serving": (1, "61e39bb09cf763f0c59f921c5815c405"),
    "stage_times": (1, "cd981006bcc83b5486a94e6ae2636ff6"),
    "publication_times": (1, "cd981006bcc83b5486a94e6ae2636ff6"),
    "failed_runs": (1, "ca00d1ed8033bd7c36b8ce3a20957d03"),
}


def shape(kind: pa.DataType) -> object:
    """A type by name, its parts and what may be null."""
    if pa.types.is_list(kind):
        return ["list", kind.value_field.nullable, shape(kind.value_type)]
    if pa.types.is_struct(kind):
        return ["struct", [[field.name, field.nullable, shape(field.type)] for field in kind]]
    return str(kind)


def digest(table: Table) -> str:
    return content_id([[field.name, field.nullable, shape(field.type)] for field in table.schema])


def test_columns_are_those_of_the_pinned_version():
    now = {table.name: (table.version, digest(table)) for table in TABLES.values()}
    silent = [
        name
        for name, (version, _) in now.items()
        if name in PINNED and version == PINNED[name][0] and now[name] != PINNED[name]
    ]
    assert not silent, (
        f"the columns of {', '.join(silent)} changed under the same version: files written "
        "before could not be read."
        " Raise the version in schemas/lake/tables.py"
    )
    lines = "\n".join(
        f'    "{name}": ({version}, "{found}"),' for name, (version, found) in now.items()
    )
    assert now == PINNED, f"versions were raised: put these lines into PINNED\n{lines}"


def test_a_changed_column_changes_the_digest():
    class Longer(TABLES["models"].model):
        added: str | None = None

    class Optional(TABLES["models"].model):
        revision: str | None

    digests = {
        digest(Table("models", model, 1, ()))
        for model in (TABLES["models"].model, Longer, Optional)
    }
    assert len(digests) == 3


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_schema_names_its_table_and_version_and_its_folders_are_columns(table: Table):
    assert table.schema.metadata == {
        NAME_KEY: table.name.encode(),
        VERSION_KEY: str(table.version).encode(),
    }
    assert set(table.partition_by) <= set(table.schema.names)


@pytest.mark.parametrize(
    "annotation", [list[str], dict[str, int], str | int, set[str], bytes, tuple[str, str, str]]
)
def test_what_has_no_column_type_is_refused(annotation: object):
    with pytest.raises((TypeError, ValueError)):
        arrow_type(annotation)


def test_what_may_be_null_is_what_may_be_none():
    class Inner(BaseModel):
        always: int
        sometimes: float | None

    inner = arrow_type(tuple[Inner, ...]).value_type
    assert [(f.name, f.nullable) for f in inner] == [("always", False), ("sometimes", True)]
