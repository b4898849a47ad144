"""The paper's Table 1: code quality on both tracks, experience, entities and meaning, by level and model."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from schemas.persona import ExpertiseLevel
from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    JUDGE,
    SCORING,
    Condition,
    condition_cells,
    condition_of,
    fits,
    rows_of,
    without,
)
from tasks.benchmarks.results import Export
from warehouse.connect import Rows, query
from warehouse.sql_files import read_sql

_CODE = ("tp", "sr")
_TALK = (
    "qd",
    "cl",
    "if_",
    "ua",
    "ce",
    "ls",
    "experience",
    "ec",
    "es",
    "sc",
    "ss",
    "user_leakage",
    "disclosed",
)
_GOLDEN = "golden"
REFERENCE_ROW = "Talk2Code"
"""Name of the golden dialogues' row, as in the paper: no model speaks in them."""
_LEVELS = tuple(level.value for level in ExpertiseLevel)


def _with_counts(figure: str) -> tuple[str, str, str]:
    name = figure.rstrip("_")
    return figure, f"n_{name}", f"n_{name}_unscored"


COLUMNS = (
    *("level", "model", "dataset_version", "isolated"),
    *(
        f"{track}_{name}"
        for track in ("direct", "interactive")
        for figure in _CODE
        for name in _with_counts(figure)
    ),
    *(name for figure in _TALK for name in _with_counts(figure)),
    *CONDITION_COLUMNS,
)
Run = Mapping[str, Any]


def main_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row per level, model and condition, in the order of the paper's Table 1; n and n_unscored beside each figure.

    A row has one version of the data and of the tasks, one sampling, and one choice of options, simulator, judges and embedder. A
    run that lacks one of them, as a direct run lacks a simulator, stands in the rows of all its values. The newest run of each
    condition that has the figure counts. Experience, entities, meaning and what users disclose are the interactive track's. The
    golden dialogues are the last rows of each level.

    Raises:
        UsageError: no run is published.
    """
    names, found = _query(home, run_ids, "figures")
    runs = [dict(zip(names, row, strict=True)) for row in found]
    if not runs:
        raise UsageError(
            f"no run of talk2code is published in {home}. `parley run talk2code.SETTING --model SPEC` makes one"
        )
    return COLUMNS, list(_rows(runs))


def _rows(runs: Sequence[Run]) -> Iterator[tuple[object, ...]]:
    keys = dict.fromkeys((_shown(run), run["dataset_version"]) for run in runs)
    for level in _LEVELS:
        for model, version in sorted(keys, key=lambda key: (key[0] == REFERENCE_ROW, *key)):
            ours = [
                run
                for run in runs
                if (_shown(run), run["dataset_version"], run["level"]) == (model, version, level)
            ]
            for condition in rows_of(_condition(run) for run in ours):
                of_row = [run for run in ours if fits(_condition(run), condition)]
                talk = _GOLDEN if model == REFERENCE_ROW else "interactive"
                code = [
                    cell
                    for track in ("direct", "interactive")
                    for name in _CODE
                    for cell in _cells(of_row, track, name)
                ]
                rest = [cell for name in _TALK for cell in _cells(of_row, talk, name)]
                isolated = all(run["isolated"] for run in of_row)
                yield level, model, version, isolated, *code, *rest, *condition_cells(condition)


def _shown(run: Run) -> str:
    return REFERENCE_ROW if run["track"] == _GOLDEN else run["model"]


def _condition(run: Run) -> Condition:
    """Return what can change a run's figures of the table: of direct runs the code alone counts, of golden ones the talk."""
    whole = condition_of(run["spec_json"], run["task_share"], run["subsample_seed"])
    apart = {"direct": (JUDGE, SCORING, "embedder"), _GOLDEN: ("sampling", "samples", "seed")}.get(
        run["track"], ()
    )
    return without(whole, *apart) if apart else whole


def _cells(runs: Sequence[Run], track: str, figure: str) -> tuple[object, object, object]:
    """A figure with its counts, of the newest run on the track that was to have it."""
    names = _with_counts(figure)
    has = [run for run in runs if run["track"] == track and any(run[name] for name in names[1:])]
    return (has[0][names[0]], has[0][names[1]], has[0][names[2]]) if has else (None, None, None)


TURN_COLUMNS = (
    *(
        "level",
        "model",
        "dataset_version",
        "track",
        "turn",
        "rho",
        "n_rho",
        "n_rho_unscored",
        "p",
        "n_p",
        "n_p_unscored",
    ),
    *("isolated", "run_id", *CONDITION_COLUMNS),
)


def turns(home: Path, run_ids: Sequence[str]) -> Rows:
    """One row per run, level and turn: the mean of rho_k and P_k over the dialogues that have a reply in that turn (Figure 4).

    Without run ids the newest run of each model, track and condition is shown.

    Raises:
        UsageError: no run is published.
    """
    names, found = _query(home, run_ids, "turns")
    records = [dict(zip(names, row, strict=True)) for row in found]
    newest: dict[tuple[object, ...], str] = {}
    rows: list[tuple[object, ...]] = []
    for record in records:
        track = _GOLDEN if record["setting"].startswith(f"talk2code.{_GOLDEN}") else "interactive"
        cells = condition_cells(
            condition_of(record["spec_json"], record["task_share"], record["subsample_seed"])
        )
        model = REFERENCE_ROW if track == _GOLDEN else record["model"]
        place = (model, record["dataset_version"], track, cells[-1])
        if newest.setdefault(place, record["run_id"]) == record["run_id"] or run_ids:
            shown = record | {"model": model, "track": track}
            rows.append(
                (*(shown[name] for name in TURN_COLUMNS[: -len(CONDITION_COLUMNS)]), *cells)
            )
    order = {level: place for place, level in enumerate(_LEVELS)}
    return TURN_COLUMNS, sorted(
        rows,
        key=lambda row: (order[str(row[0])], row[1] == REFERENCE_ROW, str(row[1]), row[-1], row[4]),
    )


def _query(home: Path, run_ids: Sequence[str], name: str) -> Rows:
    there = query(
        home,
        "select table_name from information_schema.tables where table_name = 'talk2code_levels'",
    )[1]
    if not there:
        raise UsageError(
            f"no run of talk2code is published in {home}. `parley run talk2code.SETTING --model SPEC` makes one"
        )
    statement = read_sql(files("tasks.benchmarks.talk2code") / "queries" / f"{name}.sql").statement
    return query(home, statement, {"run_ids": list(run_ids)})


EXPORTS: Mapping[str, Export] = {
    "main-table": Export(
        help="TP and SR of both tracks, six dimensions, EC, ES, SC, SS with n, one row a level, model and condition (Table 1)",
        rows=main_table,
    ),
    "turns": Export(
        help="rho_k and P_k by turn with n, one row a level, model, track, turn and condition (Figure 4)",
        rows=turns,
    ),
}
