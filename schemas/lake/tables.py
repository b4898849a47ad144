"""One pyarrow schema for each Parquet table, derived from its model.

The models are the single source: a field added to a model appears in its table, and then the
version number below must be raised (a test pins a digest of every schema). The schema's metadata
contains the table's name and version.
"""

import types
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Literal, Union, get_args, get_origin

import pyarrow as pa
from pydantic import BaseModel

from schemas.audit import ForgeryAudit
from schemas.dialog import Context, Dialog
from schemas.episode import Episode, Score
from schemas.lake.records import (
    Checkpoint,
    ModelRecord,
    NightRecord,
    QualityCheck,
    Release,
    RunEpisode,
    RunRecord,
    ServedHours,
    Serving,
)
from schemas.night.decision import ComparisonRule, Decision
from schemas.night.work import FailedRun, StageTime
from schemas.problem import Problem, QuarantinedRow
from schemas.run import Embedding, Float32
from schemas.verdict import JudgeDriftAnswer, JudgeVerdict, Rating, TestVerdict

NAME_KEY, VERSION_KEY = b"parley.table", b"parley.version"

_SCALARS: dict[object, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    Float32: pa.float32(),
}


def _without_none(annotation: object) -> tuple[object, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [a for a in get_args(annotation) if a is not type(None)]
        if len(kinds) != 1:
            raise TypeError(f"{annotation}: a column has one type, or one type and None")
        return kinds[0], True
    return annotation, False


def arrow_type(annotation: object) -> pa.DataType:
    """Return the Arrow type of a field.

    Enums become text, models structs, `tuple[X, ...]` lists, and pairs key/value structs.
    """
    annotation, _ = _without_none(annotation)
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return pa.list_(pa.field("item", arrow_type(inner[0]), nullable=False))
        return pa.struct(
            [
                pa.field(name, arrow_type(a), nullable=False)
                for name, a in zip(("key", "value"), inner, strict=True)
            ]
        )
    if get_origin(annotation) is Literal:
        return pa.string()
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return pa.struct(_fields(annotation))
        if issubclass(annotation, Enum):
            return pa.string()
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    raise TypeError(f"{annotation} has no Arrow type; use a scalar, an enum, a model or a tuple")


def _fields(model: type[BaseModel]) -> list[pa.Field]:
    return [
        pa.field(name, arrow_type(info.annotation), nullable=_without_none(info.annotation)[1])
        for name, info in model.model_fields.items()
    ]


@dataclass(frozen=True)
class Table:
    """Parquet table: its model, its version and the partition of its files."""

    name: str
    model: type[BaseModel]
    version: int
    partition_by: tuple[str, ...]
    """Columns that name the folders, in order."""
    is_loaded: bool = True
    """True if the warehouse contains the table, too. False for tables that users do not query."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema of the table's files, with name and version in the metadata."""
        return pa.schema(
            _fields(self.model),
            metadata={NAME_KEY: self.name.encode(), VERSION_KEY: str(self.version).encode()},
        )


_RUN = ("benchmark", "model", "run_id")
_DATASET = ("benchmark", "dataset_version")

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("dialogs", Dialog, 3, _DATASET),
        Table("problems", Problem, 3, _DATASET),
        Table("quarantine", QuarantinedRow, 1, _DATASET),
        Table("episodes", Episode, 4, _RUN),
        Table("test_verdicts", TestVerdict, 3, _RUN),
        Table("forgery_audit", ForgeryAudit, 1, _RUN),
        Table("judge_verdicts", JudgeVerdict, 3, _RUN),
        Table("judge_drift_answers", JudgeDriftAnswer, 1, ("night_id",)),
        Table("scores", Score, 1, _RUN),
        Table("runs", RunRecord, 8, _RUN),
        Table("run_episodes", RunEpisode, 1, _RUN),
        Table("quality_checks", QualityCheck, 1, _RUN),
        Table("models", ModelRecord, 2, ("model",)),
        Table("served_hours", ServedHours, 1, _RUN),
        Table("nights", NightRecord, 5, ("night_id",)),
        Table("checkpoints", Checkpoint, 1, ("family",)),
        Table("embeddings", Embedding, 1, ("embedder",), is_loaded=False),
        Table("ratings", Rating, 1, ("rater",)),
        Table("contexts", Context, 1, _DATASET),
        Table("comparison_rules", ComparisonRule, 1, _RUN),
        Table("decisions", Decision, 1, _RUN),
        Table("releases", Release, 2, _RUN),
        Table("serving", Serving, 1, ("night_id",)),
        Table("stage_times", StageTime, 1, ("night_id",)),
        Table("publication_times", StageTime, 1, ("night_id",), is_loaded=False),
        Table("failed_runs", FailedRun, 1, ("night_id",)),
    )
}
LOADED = {name: table for name, table in TABLES.items() if table.is_loaded}
"""Tables that the warehouse contains, too."""
