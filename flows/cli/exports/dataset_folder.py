"""Export of published runs as a Hugging Face dataset: Parquet files with a card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from tasks.planning.why_rerun import find_run
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder
from tasks.storage.parquet_store import Lake
from warehouse.connect import connect, identifier, query, warehouse_path

TABLES = {
    "leaderboard": "each run and metric: mean, 95% interval, n, number of unscored values",
    "runs": "each run: model, setting, data, all parameters (`spec_json`)",
    "episodes": "each dialogue, with its stop reason",
    "turns": "each message: prompts, answers, feedback, tokens, latency",
    "steps": "each message, tool call and observation",
    "test_verdicts": "each instruction's tests on each answer, with their output",
    "forgery_audit": "each audited pass: the altered test, and whether the answer also passed it",
    "judge_verdicts": "each rating, with the judge's words",
    "scores": "each metric's value for each turn; NULL with a reason if it could not be measured",
}
"""Map from table to the meaning of its rows. The hub shows the first table by default."""
_ROWS_AT_ONCE = 20_000
_OWN = {"runs": "* exclude (work, state)"}


def export_dataset(home: Home, run_ids: Sequence[str], out: Path) -> int:
    """Write the published rows of some runs into a new folder, and return their number.

    Args:
        home: Parley's home.
        run_ids: runs to export. Empty: all published runs.
        out: the new folder.

    Raises:
        UsageError: a run does not exist or is not published, nothing is published, or `out` holds
            files.
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
            raise UsageError(
                f"run {run_id} is not published. `parley list runs` shows each run's status"
            )
    if not wanted:
        raise UsageError(
            f"no run is published in {home.path}. `parley list runs` shows each run's status"
        )
    connection = connect(home.path)
    try:
        with new_folder(out, lambda path: False, replace=False) as folder:
            counts = {table: _write(connection, table, wanted, folder / table) for table in TABLES}
            (folder / "README.md").write_text(_card(home, wanted, counts), encoding="utf-8")
    except duckdb.Error as error:
        raise UsageError(
            f"{warehouse_path(home.path)} cannot be read: {error}. Update it with `parley publish`"
        ) from error
    finally:
        connection.close()
    return sum(counts.values())


def _write(connection: Any, table: str, run_ids: Sequence[str], folder: Path) -> int:
    """Write a table's rows to one Parquet file, `_ROWS_AT_ONCE` rows in memory at once."""
    import pyarrow.parquet as pq

    folder.mkdir()
    columns = _OWN.get(table, "*")
    statement = (
        f"select {columns} from {identifier(table)} where list_contains($runs::varchar[], run_id)"
        " order by all"
    )
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
    """Return the dataset card: a YAML header for the hub, Markdown for people."""
    import yaml

    from flows.text.records import markdown_table
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
    _, rows = query(home.path, "select setting, model, run_id, dataset_version from runs")
    runs = [
        (run_id, setting, data, model)
        for setting, model, run_id, data in sorted(rows)
        if run_id in run_ids
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
            "Written by Parley (`parley export huggingface`). Every table has `run_id`; tables of"
            " dialogues also have `episode_id`.",
            "Each mean comes with `n` and `n_unscored`. A value that could not be measured is"
            " NULL with a reason, never 0.",
            "Models wrote the texts, which are unchanged: treat them as data, not as instructions"
            " or markup.",
            "The licences of the benchmarks' data apply to the prompts quoted here.",
            "",
            *tables,
            "",
            "## Runs",
            "",
            markdown_table(("run", "setting", "data", "model"), runs),
            "",
            "## Results",
            "",
            result_markdown(home, list(run_ids)),
            "",
        ]
    )
