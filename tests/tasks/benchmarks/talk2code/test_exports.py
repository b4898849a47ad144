"""The main table: which of a model's runs counts."""

import re
from importlib.resources import files
from pathlib import Path

import duckdb

from tasks.benchmarks.talk2code.exports import main_table

FIGURES = (files("tasks.benchmarks.talk2code") / "queries" / "figures.sql").read_text(encoding="utf-8")
NAMES = re.findall(r"^    levels\.(\w+),?$", FIGURES, re.MULTILINE)
TEXTS = ("run_id", "model", "dataset_version", "track", "level")


def published(home: Path, *runs: tuple[float | None, float]) -> None:
    """A warehouse with runs of one model on the direct track, the later ones the newer: share of its tasks, and TP."""
    home.mkdir(parents=True)
    with duckdb.connect(home / "warehouse.duckdb") as tables:
        kinds = (f"{name} {'text' if name in TEXTS else 'boolean' if name == 'isolated' else 'double'}" for name in NAMES)
        tables.execute(f"create table talk2code_levels ({', '.join(kinds)}, axis text)")
        tables.execute("create table runs (run_id text, finished_at text, task_share double)")
        for number, (share, tp) in enumerate(runs):
            tables.execute("insert into runs values (?, ?, ?)", [f"run {number}", f"2026-01-{number + 1:02}", share])
            row = {"run_id": f"run {number}", "model": "openai:m", "dataset_version": "1", "track": "direct", "level": "novice"}
            row |= {"tp": tp, "n_tp": 9, "isolated": True, "axis": "level"}
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            tables.execute(f"insert into talk2code_levels ({names}) values ({marks})", list(row.values()))


def direct_tp(home: Path, *run_ids: str) -> list[object]:
    columns, rows = main_table(home, run_ids)
    return [row[columns.index("direct_tp")] for row in rows]


def test_a_whole_run_counts_before_a_newer_one_of_fewer_tasks(home: Path) -> None:
    published(home, (None, 0.25), (None, 0.5), (0.1, 1.0), (0.9, 0.75))
    assert direct_tp(home) == [0.5]
    assert direct_tp(home, "run 2", "run 3") == [0.75]
    assert direct_tp(home, "run 2") == [1.0]
