"""What the pages of `parley site` show, read from one publication of the warehouse."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from warehouse.connect import connect, identifier

Row = Mapping[str, Any]
_BATCH = 400
_SHARED = (
    *("run_id", "benchmark", "model", "setting", "dataset_version", "sandbox", "isolated", "task_share"),
    *("episode_options", "scoring_options", "options"),
)
"""Columns of result tables that tell runs apart, not parts of a run."""


class SiteRows:
    """Rows of one publication; a later one does not mix in."""

    def __init__(self, home: Path) -> None:
        self._connection = connect(home)

    def __enter__(self) -> "SiteRows":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()

    def rows(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Rows by their columns' names."""
        cursor = self._connection.execute(sql, parameters or None)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def runs(self) -> list[dict[str, Any]]:
        """Published runs, the newest first."""
        return self.rows("select * exclude (work) from runs where status = 'finished' order by finished_at desc, run_id")

    def leaderboard(self) -> list[dict[str, Any]]:
        """A row for each run and metric, the newest runs first."""
        return self.rows("select * from leaderboard order by finished_at desc, run_id, metric")

    def costs(self, run_id: str) -> list[dict[str, Any]]:
        """What a run cost, by role."""
        return self.rows("select * from costs where run_id = $run order by role", run=run_id)

    def episodes(self, run_id: str) -> list[dict[str, Any]]:
        """A run's dialogues with counts of their tests and tokens, by problem and sample.

        A failure is a test that failed, broke or took too long; a fault of the machine is none.
        """
        return self.rows(
            """
            with tests as (
                select episode_id, count(*) as n_tests, count(*) filter (outcome = 'passed') as n_passed,
                    count(*) filter (outcome in ('failed', 'error', 'timeout')) as n_failed,
                    count(*) filter (outcome = 'infra') as n_infra
                from test_verdicts where run_id = $run group by episode_id),
            spent as (
                select episode_id, max(turn) as n_turns, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
                    sum(latency_s) as latency_s
                from steps where run_id = $run group by episode_id)
            select episodes.*, tests.* exclude (episode_id), spent.* exclude (episode_id), runs.setting as run_setting
            from episodes
            inner join runs on runs.run_id = episodes.run_id
            left join tests on tests.episode_id = episodes.episode_id
            left join spent on spent.episode_id = episodes.episode_id
            where episodes.run_id = $run order by episodes.problem_id, episodes.sample, episodes.episode_id
            """,
            run=run_id,
        )

    def parts_of(self, run_id: str, episode_ids: Sequence[str]) -> Iterator[tuple[str, dict[str, list[dict[str, Any]]]]]:
        """Of each dialogue its `steps`, `test_verdicts`, `judge_verdicts` and `scores`, in the given order."""
        for start in range(0, len(episode_ids), _BATCH):
            batch = list(episode_ids[start : start + _BATCH])
            found: dict[str, dict[str, list[dict[str, Any]]]] = {
                one: {"steps": [], "test_verdicts": [], "judge_verdicts": [], "scores": []} for one in batch
            }
            for table, order in (
                ("steps", "position"),
                ("test_verdicts", "turn, instruction_id"),
                ("judge_verdicts", "turn, rubric, dimension"),
                ("scores", "turn, metric, instruction_id"),
            ):
                wanted = "run_id = $run and list_contains($ids::varchar[], episode_id)"
                for row in self.rows(f"select * from {table} where {wanted} order by {order}", run=run_id, ids=batch):
                    found[row["episode_id"]][table].append(row)
            yield from found.items()

    def context_of(self, run_id: str) -> dict[tuple[str, str], tuple[str, int]]:
        """Dialogue and its row -> the context that its talk begins with, and how many of the context's turns."""
        found = self.rows(
            """
            select dialog_id, dialogs.row_digest, context_id, context_turns from dialogs
            inner join runs using (benchmark, dataset_version) where run_id = $run and context_id is not null
            """,
            run=run_id,
        )
        return {(row["dialog_id"], row["row_digest"]): (row["context_id"], row["context_turns"]) for row in found}

    def context(self, context_id: str) -> list[dict[str, Any]]:
        """The turns of a context."""
        found = self.rows("select turns from contexts where context_id = $id limit 1", id=context_id)
        return found[0]["turns"] if found else []

    def curve_tables(self) -> list[tuple[str, str, list[str], list[str]]]:
        """Result tables with values by turn or level: name, column of the axis, columns that part it, and its measures."""
        columns: dict[str, dict[str, str]] = {}
        for row in self.rows("select table_name, column_name, data_type from duckdb_columns() where not internal order by all"):
            columns.setdefault(row["table_name"], {})[row["column_name"]] = row["data_type"]
        found: list[tuple[str, str, list[str], list[str]]] = []
        for table, types in columns.items():
            measures = [name for name in types if {f"{name}_low", f"{name}_high"} <= types.keys()]
            axis = next((name for name in ("turn", "level") if name in types), None)
            if axis and measures and {"run_id", "setting", "model"} <= types.keys():
                parts = [n for n, kind in types.items() if kind == "VARCHAR" and n != axis and n not in _SHARED]
                found.append((table, axis, parts, measures))
        return found

    def table(self, name: str) -> list[dict[str, Any]]:
        """All rows of a result table."""
        return self.rows(f"select * from {identifier(name)} order by all")

    def changed(self, old: str, new: str) -> list[dict[str, Any]]:
        """Dialogues of two runs, by problem and sample, with a metric's mean that is not the same in both."""
        return self.rows(
            """
            with pooled as (
                select pool_dialog.*, dialog_id from pool_dialog inner join episodes using (run_id, episode_id))
            select a.problem_id, a.sample, a.metric, a.mean as old, b.mean as new, b.mean - a.mean as difference,
                a.episode_id as old_episode, b.episode_id as new_episode
            from pooled as a inner join pooled as b on (a.benchmark, a.dialog_id, a.sample, a.metric)
                = (b.benchmark, b.dialog_id, b.sample, b.metric)
            where a.run_id = $old and b.run_id = $new and a.mean is distinct from b.mean
            order by a.problem_id, a.dialog_id, a.sample, a.metric
            """,
            old=old,
            new=new,
        )
