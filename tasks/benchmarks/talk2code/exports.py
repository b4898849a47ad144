"""Exports of the paper's Table 1 and Figure 4: code quality, experience, entities and meaning."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.dialog import ExpertiseLevel
from tasks.benchmarks.conditions import (
    CONDITION_COLUMNS,
    JUDGE,
    SCORING,
    Condition,
    by_row,
    condition_cells,
    condition_of,
    not_published,
    query_records,
    without,
)
from tasks.benchmarks.results import Export
from tasks.benchmarks.talk2code.settings import SETTINGS
from warehouse.connect import Rows

_CODE = ("tp", "sr")
_DIALOGUE_FIGURES = (
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
"""Row of the golden dialogues, named as in the paper. No model takes part in them."""
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
    *(name for figure in _DIALOGUE_FIGURES for name in _with_counts(figure)),
    *CONDITION_COLUMNS,
)
Run = Mapping[str, Any]


def main_table(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Table 1: one row per level, model and condition, with n and n_unscored of each figure.

    A condition is one version of the data and of the tasks, one sampling, and one choice of
    options, simulator, judges and embedder. A run without one of these, such as a direct run
    without a simulator, contributes to the rows of all its values. For each figure, the newest run
    of the condition that has the figure is used. Experience, entities, meaning and disclosure come
    from the interactive track. The golden dialogues are the last rows of each level.

    Raises:
        UsageError: no run is published.
    """
    runs = query_records(home, "talk2code", "figures", run_ids)
    if not runs:
        raise not_published(home, "talk2code")
    return COLUMNS, list(_rows(runs))


def _rows(runs: Sequence[Run]) -> Iterator[tuple[object, ...]]:
    keys = dict.fromkeys((_row_name(run), run["dataset_version"]) for run in runs)
    for level in _LEVELS:
        for model, version in sorted(keys, key=lambda key: (key[0] == REFERENCE_ROW, *key)):
            level_runs = [
                run
                for run in runs
                if (_row_name(run), run["dataset_version"], run["level"]) == (model, version, level)
            ]
            for condition, row_runs in by_row(level_runs, _condition):
                dialogue_track = _GOLDEN if model == REFERENCE_ROW else "interactive"
                figures = [
                    *((track, name) for track in ("direct", "interactive") for name in _CODE),
                    *((dialogue_track, name) for name in _DIALOGUE_FIGURES),
                ]
                cells = (cell for figure in figures for cell in _cells(row_runs, *figure))
                isolated = all(run["isolated"] for run in row_runs)
                yield (level, model, version, isolated, *cells, *condition_cells(condition))


def _row_name(run: Run) -> str:
    return REFERENCE_ROW if run["track"] == _GOLDEN else run["model"]


def _condition(run: Run) -> Condition:
    """Return the conditions that can change a run's figures in the table.

    Only the code figures of direct runs are used, so judges, embedder and options of measures are
    ignored. Only the dialogue figures of golden runs are used, so sampling is ignored.
    """
    condition = condition_of(run, SETTINGS)
    ignored = {
        "direct": (JUDGE, SCORING, "embedder"),
        _GOLDEN: ("sampling", "samples", "seed"),
    }.get(run["track"], ())
    return without(condition, *ignored) if ignored else condition


def _cells(runs: Sequence[Run], track: str, figure: str) -> tuple[object, object, object]:
    """Return a figure with its counts from the newest run on the track that measured it."""
    value, *counts = _with_counts(figure)
    measured = (run for run in runs if run["track"] == track and any(run[n] for n in counts))
    newest = next(measured, dict[str, Any]())
    return newest.get(value), newest.get(counts[0]), newest.get(counts[1])


TURN_COLUMNS = (
    *("level", "model", "dataset_version", "track", "turn"),
    *("rho", "n_rho", "n_rho_unscored", "p", "n_p", "n_p_unscored"),
    *("isolated", "run_id", *CONDITION_COLUMNS),
)


def turns(home: Path, run_ids: Sequence[str]) -> Rows:
    """Return Figure 4: the mean of rho_k and P_k by run, level and turn.

    The mean is over the dialogues that have a reply in the turn. Without run ids, the newest run of
    each model, track and condition is used.

    Raises:
        UsageError: no run is published.
    """
    newest: dict[tuple[object, ...], str] = {}
    rows: list[tuple[object, ...]] = []
    for record in query_records(home, "talk2code", "turns", run_ids):
        track = _GOLDEN if record["setting"].startswith(f"talk2code.{_GOLDEN}") else "interactive"
        cells = condition_cells(condition_of(record, SETTINGS))
        model = REFERENCE_ROW if track == _GOLDEN else record["model"]
        group = (model, record["dataset_version"], track, cells[-1])
        if newest.setdefault(group, record["run_id"]) == record["run_id"] or run_ids:
            cells_by_name = record | {"model": model, "track": track}
            rows.append(
                (*(cells_by_name[name] for name in TURN_COLUMNS[: -len(CONDITION_COLUMNS)]), *cells)
            )
    order = {level: index for index, level in enumerate(_LEVELS)}
    return TURN_COLUMNS, sorted(
        rows,
        key=lambda row: (order[str(row[0])], row[1] == REFERENCE_ROW, str(row[1]), row[-1], row[4]),
    )


EXPORTS: Mapping[str, Export] = {
    "main-table": Export(
        help="Table 1 of the paper, with n, by level, model and condition: test-case pass rate (TP)"
        " and success rate (SR) of both tracks, six rated dimensions, consistency and satisfaction"
        " of entities (EC, ES) and of meaning (SC, SS)",
        rows=main_table,
    ),
    "turns": Export(
        help="entity match density (rho_k) and semantic probability (P_k) with n, by level, model,"
        " track, turn and condition (Figure 4)",
        rows=turns,
    ),
}
