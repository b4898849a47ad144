"""`parley export huggingface`: published runs as a folder of Parquet files with a card, as the Hugging Face hub wants it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from schemas.outside.display import markdown_cell
from tasks.planning.known_runs import find_run
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder
from tasks.storage.parquet_store import Lake
from warehouse.connect import connect, identifier, query, warehouse_path

NAME = "huggingface"
TABLES = {
    "leaderboard": "each run and metric: mean, 95% interval, n, what is unscored",
    "runs": "each run: model, setting, data, all that it was told (`spec_json`)",
    "episodes": "each dialogue: how it ended",
    "turns": "each message: prompts, answers, feedback, tokens, latency",
    "steps": "the same with tool calls and observations",
    "test_verdicts": "each instruction's tests on each answer, with their output",
    "forgery_audit": "each audited pass: the altered test, and whether the answer passed it, too",
    "judge_verdicts": "each rating, with the judge's words",
    "scores": "each metric's value for each turn; NULL with a reason where it could not be measured",
}
"""Table -> what a row of it is. The first is what the hub shows."""
_ROWS_AT_ONCE = 20_000
_OWN = {"runs": "* exclude (work, state)"}


def export_dataset(home: Home, run_ids: Sequence[str], out: Path) -> int:
    """Write the published rows of some runs, or of all, into a new folder; returns how many.

    Raises:
        UsageError: nothing is published, no such run, one that is not published, or a folder that holds files.
    """
    import duckdb

    lake = Lake(home.lake)
    published = [
        row[0]
        for row in query(
            home.path, "select run_id from runs where status = 'finished' order by run_id"
        )[1]
    ]
    wanted = [find_run(lake, run_id).run_id for run_id in run_ids] or published
    for run_id in wanted:
        if run_id not in published:
            raise UsageError(f"run {run_id} is not published. See `parley list runs`")
    if not wanted:
        raise UsageError(f"nothing is published in {home.path}. See `parley list runs`")
    connection = connect(home.path)
    try:
        with new_folder(out, lambda path: False, replace=False) as folder:
            counts = {table: _write(connection, table, wanted, folder / table) for table in TABLES}
            (folder / "README.md").write_text(_card(home, wanted, counts), encoding="utf-8")
    except duckdb.Error as error:
        raise UsageError(
            f"{warehouse_path(home.path)} cannot be read: {error}. `parley publish` brings it up to date"
        ) from error
    finally:
        connection.close()
    return sum(counts.values())


def _write(connection: Any, table: str, run_ids: Sequence[str], folder: Path) -> int:
    """One Parquet file with a table's rows, some thousands in memory at once."""
    import pyarrow.parquet as pq

    folder.mkdir()
    columns = _OWN.get(table, "*")
    statement = f"select {columns} from {identifier(table)} where list_contains($runs::varchar[], run_id) order by all"
    batches = connection.sql(statement, params={"runs": list(run_ids)}).to_arrow_reader(
        _ROWS_AT_ONCE
    )
    n_rows = 0
    with pq.ParquetWriter(folder / "part-00000.parquet", batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            n_rows += batch.num_rows
    return n_rows


def _card(home: Home, run_ids: Sequence[str], counts: Mapping[str, int]) -> str:
    """The card: what the hub reads (YAML), and what people do."""
    import yaml

    from flows.text.results import result_markdown

    configs: list[dict[str, object]] = [
        {"config_name": table, "data_files": f"{table}/*.parquet"} for table in TABLES
    ]
    configs[0]["default"] = True
    head = {
        "pretty_name": "Results of Parley",
        "tags": ["evaluation", "code", "multi-turn"],
        "configs": configs,
    }
    columns, rows = query(
        home.path, "select run_id, benchmark, setting, dataset_version, model from runs"
    )
    told = [dict(zip(columns, row, strict=True)) for row in rows]
    shown = [one for one in told if one["run_id"] in run_ids]
    lines = ["| run | setting | data | model |", "| --- | --- | --- | --- |"]
    lines += [
        "| "
        + " | ".join(
            markdown_cell(one[name]) for name in ("run_id", "setting", "dataset_version", "model")
        )
        + " |"
        for one in sorted(shown, key=lambda one: (one["setting"], one["model"], one["run_id"]))
    ]
    tables = [f"- `{table}`, {counts[table]} rows: {text}" for table, text in TABLES.items()]
    return "\n".join(
        [
            "---",
            yaml.safe_dump(head, sort_keys=False).rstrip(),
            "---",
            "",
            "# Dialogues of code models, with tests and scores",
            "",
            "Written by Parley (`parley export huggingface`). All tables have `run_id`, those of dialogues `episode_id`, too.",
            "A mean stands beside its `n` and `n_unscored`; what could not be measured is NULL with a reason, never 0.",
            "Texts are what models wrote, unchanged: take them for data, never for instructions or markup.",
            "The benchmarks' data have licences of their own, which hold for prompts quoted here.",
            "",
            *tables,
            "",
            "## Runs",
            "",
            *lines,
            "",
            "## Results",
            "",
            result_markdown(home, list(run_ids)),
            "",
        ]
    )
