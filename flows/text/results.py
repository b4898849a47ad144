"""Results of runs as text for the terminal and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.text.comparison import decision_lines, decision_markdown
from flows.text.records import published_records
from schemas.grouping import grouped
from schemas.outside.display import plain_line
from tasks.storage.home import Home


def _records(home: Home, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    records = published_records(home, "result_table", run_ids)
    return sorted(records, key=lambda record: run_ids.index(record["run_id"]))


_IN_JSON = ("metric", "mean", "ci_low", "ci_high", "n", "n_unscored", "n_not_applicable")


def json_results(home: Home, run_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return a map from run to one object for each metric, with the columns of `leaderboard`.

    A run that is not published is not in the map.
    """
    return grouped(
        (record["run_id"], {name: record[name] for name in _IN_JSON})
        for record in _records(home, run_ids)
    )


def result_markdown(home: Home, run_ids: Sequence[str]) -> str:
    """Return the results of runs as Markdown tables, one for each benchmark."""
    from flows.text.result_table import result_markdown_table, result_tables

    records = _records(home, run_ids)
    tables = [
        *map(result_markdown_table, result_tables(records)),
        *_released_lines(records),
        *decision_markdown(home, run_ids),
    ]
    return "\n\n".join(tables) or "No run of this night is published."


def compared_rows(home: Home, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of the table `comparisons` about the runs.

    Comparisons with predecessors come first, then those with baselines.
    """
    return published_records(home, "comparisons_of_runs", run_ids)


def _released_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each released run, with the reason."""
    released = {
        record["run_id"]: record for record in records if record["released_because"] is not None
    }
    return [
        f"Withheld, then released: {plain_line(record['model'])} on {record['setting']} (run"
        f" {run_id[:12]}),"
        f" because: {plain_line(record['released_because'], 300)}"
        for run_id, record in released.items()
    ]


def print_result_rows(home: Home, run_ids: Sequence[str]) -> None:
    """Print the results of runs, if the warehouse holds any."""
    from flows.text.result_table import print_table, result_tables

    records = _records(home, run_ids)
    for table in result_tables(records):
        print_table(table)
    for line in (*_released_lines(records), *decision_lines(home, run_ids)):
        print(line)
