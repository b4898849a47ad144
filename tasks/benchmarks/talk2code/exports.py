"""The paper's Table 1: code quality on both tracks, experience, entities and meaning, by level and model."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from schemas.persona import ExpertiseLevel
from tasks.benchmarks.results import Export
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

_CODE = ("tp", "sr")
_TALK = ("qd", "cl", "if_", "ua", "ce", "ls", "experience", "ec", "es", "sc", "ss")
_GOLDEN = "golden"
REFERENCE_ROW = "Talk2Code"
"""Name of the golden dialogues' row, as in the paper: no model speaks in them."""
_LEVELS = tuple(level.value for level in ExpertiseLevel)


def _with_counts(figure: str) -> tuple[str, str, str]:
    name = figure.rstrip("_")
    return figure, f"n_{name}", f"n_{name}_unscored"


COLUMNS = (
    *("level", "model", "dataset_version", "isolated"),
    *(f"{track}_{name}" for track in ("direct", "interactive") for figure in _CODE for name in _with_counts(figure)),
    *(name for figure in _TALK for name in _with_counts(figure)),
)
Run = Mapping[str, Any]


def main_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row a level and model, the levels and columns in the order of the paper's Table 1; n and n_unscored beside each figure.

    Of a model's runs on a track the newest of all tasks that has the figure counts, or where it has none, that of the largest
    share. Experience, entities and meaning are the interactive track's. The golden dialogues are the last row of each level.

    Raises:
        UsageError: no run is published.
    """
    names, found = _figures(home, run_ids)
    runs = [dict(zip(names, row, strict=True)) for row in found]
    if not runs:
        raise UsageError(f"no run of talk2code is published in {home}. `parley run talk2code.SETTING --model SPEC` makes one")
    return COLUMNS, list(_rows(runs))


def _rows(runs: Sequence[Run]) -> Iterator[tuple[object, ...]]:
    keys = dict.fromkeys((_shown(run), run["dataset_version"]) for run in runs)
    for level in _LEVELS:
        for model, version in sorted(keys, key=lambda key: (key[0] == REFERENCE_ROW, *key)):
            ours = [run for run in runs if (_shown(run), run["dataset_version"], run["level"]) == (model, version, level)]
            if ours:
                talk = _GOLDEN if model == REFERENCE_ROW else "interactive"
                code = [cell for track in ("direct", "interactive") for name in _CODE for cell in _cells(ours, track, name)]
                rest = [cell for name in _TALK for cell in _cells(ours, talk, name)]
                yield level, model, version, all(run["isolated"] for run in ours), *code, *rest


def _shown(run: Run) -> str:
    return REFERENCE_ROW if run["track"] == _GOLDEN else run["model"]


def _cells(runs: Sequence[Run], track: str, figure: str) -> tuple[object, object, object]:
    """A figure with its counts, of the first run on the track that was to have it."""
    names = _with_counts(figure)
    has = [run for run in runs if run["track"] == track and any(run[name] for name in names[1:])]
    return (has[0][names[0]], has[0][names[1]], has[0][names[2]]) if has else (None, None, None)


def _figures(home: Path, run_ids: Sequence[str]) -> Rows:
    there = query(home, "select table_name from information_schema.tables where table_name = 'talk2code_levels'")[1]
    if not there:
        raise UsageError(f"no run of talk2code is published in {home}. `parley run talk2code.SETTING --model SPEC` makes one")
    statement = read_sql(files("tasks.benchmarks.talk2code") / "queries" / "figures.sql").statement
    return query(home, statement, {"run_ids": list(run_ids)})


EXPORTS: Mapping[str, Export] = {
    "main-table": Export(
        help="TP and SR of both tracks, six dimensions, EC, ES, SC, SS with n, one row a level and model (Table 1)",
        rows=main_table,
    ),
}
