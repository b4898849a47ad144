"""Results of a benchmark in many settings: a row for each setting and model, a column for each of its first metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.benchmarks import registry

FROM_SETTINGS = 3
"""With fewer settings, a row for each metric is easier to read."""
_N_METRICS = 3

Record = Mapping[str, Any]
"""A row of the query `result_table`."""


def has_many_settings(records: Sequence[Record]) -> bool:
    """Whether these results of one benchmark are of so many settings that they are read side by side."""
    return len({record["setting"] for record in records}) >= FROM_SETTINGS


def settings_table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows, runs in the order in which they come; a cell is mean, 95% interval and n, and what is unscored."""
    metrics = registry.load(records[0]["benchmark"]).scores.metrics[:_N_METRICS]
    runs: dict[str, dict[str, Record]] = {}
    for record in records:
        runs.setdefault(record["run_id"], {})[record["metric"]] = record
    rows = [(*_names(next(iter(run.values()))), *(_cell(run.get(metric)) for metric in metrics)) for run in runs.values()]
    return ("setting", "model", *metrics), rows


def _names(record: Record) -> tuple[str, str]:
    return record["setting"].partition(".")[2], record["model"]


def _cell(record: Record | None) -> str:
    if record is None:
        return "–"
    mean = "–" if record["mean"] is None else f"{record['mean']:.3f}"
    interval = "" if record["ci_low"] is None else f" ({record['ci_low']:.2f}–{record['ci_high']:.2f})"
    unscored = f", {record['n_unscored']} unscored" if record["n_unscored"] else ""
    return f"{mean}{interval} n={record['n']}{unscored}"
