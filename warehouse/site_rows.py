"""Rows that the pages of `parley site` show, read from one publication of the warehouse."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from warehouse.comparison.named_pairs import REQUESTED
from warehouse.comparison.pairs import Comparisons, Directions
from warehouse.comparison.runs import ComparedRun, read_runs
from warehouse.connect import batches, connect, fetch_rows, identifier, warehouse_path
from warehouse.descriptions import CurveTable, curve_table

Row = Mapping[str, Any]
STEPS_AT_ONCE, DIALOGUES_AT_ONCE = 20_000, 400
"""Maximum numbers of steps and of dialogues whose parts are in memory at a time."""


class SiteRows:
    """Rows of one publication. Later publications do not mix in."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._connection = connect(home)

    def __enter__(self) -> "SiteRows":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Return rows as column -> value.

        Raises:
            UsageError: the tables do not fit this version of Parley. The message names the command
                that updates them.
        """
        import duckdb

        try:
            return fetch_rows(self._connection.execute(sql, parameters or None))
        except duckdb.Error as error:
            raise UsageError(
                f"{warehouse_path(self._home)} cannot be read: {error}. If another version "
                "of Parley wrote it,"
                " `parley publish` brings it up to date"
            ) from error

    def runs(self) -> list[dict[str, Any]]:
        """Return the published runs, newest first."""
        return self._labelled(
            self.rows(
                "select * exclude (work) from runs where status = 'finished' order by "
                "finished_at desc, run_id"
            )
        )

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Return run -> label.

        The label is the model. It includes the run's short id if another run has the same
        properties, but other options or another seed.
        """
        properties = ("model", "setting", "dataset_version", "task_share", "sandbox", "isolated")
        runs = self.rows(
            f"select run_id, {', '.join(properties)} from runs where status = 'finished'"
        )
        properties_by_run = {row["run_id"]: tuple(row[name] for name in properties) for row in runs}
        occurrences = Counter(properties_by_run.values())
        return {
            run: values[0] if occurrences[values] == 1 else f"{values[0]} ({run[:12]})"
            for run, values in properties_by_run.items()
        }

    def _labelled(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "label": self.labels.get(row["run_id"], row["model"])} for row in rows]

    def leaderboard(self) -> list[dict[str, Any]]:
        """Return a row for each run and metric, newest runs first."""
        return self._labelled(
            self.rows("select * from leaderboard order by finished_at desc, run_id, metric")
        )

    def costs(self, run_id: str) -> list[dict[str, Any]]:
        """Return the cost of a run by role."""
        return self.rows("select * from costs where run_id = $run order by role", run=run_id)

    def decisions(self, run_id: str) -> list[dict[str, Any]]:
        """Return the early decisions of a run, a row for each metric."""
        return self.rows("select * from decisions where run_id = $run order by metric", run=run_id)

    def history(self) -> list[dict[str, Any]]:
        """Return the checkpoints of each family in order, a row for each series and metric."""
        return self._labelled(
            self.rows("select * from history order by family, series, metric, position")
        )

    def events(self) -> list[dict[str, Any]]:
        """Return the events of comparisons and histories, each with its night and both levels."""
        return self._labelled(
            self.rows(
                """
                select night_id, event, run_id, other_run_id, model, setting, metric,
                    other_mean as old, mean as new, family
                from comparisons where event is not null
                union all
                select night_id, event, run_id, null, model, setting, metric,
                    event_before, event_after, family
                from history where event is not null
                order by all
                """
            )
        )

    def last_compared_night(self) -> str | None:
        """Return the latest night whose runs were compared with others, or None."""
        rows = self.rows(
            "select comparisons.night_id from comparisons inner join runs using (run_id)"
            " order by runs.finished_at desc, runs.run_id limit 1"
        )
        return rows[0]["night_id"] if rows else None

    def episodes(self, run_id: str) -> list[dict[str, Any]]:
        """Return a run's dialogues with counts of steps, tests and tokens, sorted by problem.

        A test counts as a failure if it failed, raised an error or took too long. A fault of the
        machine does not count. `usd` covers subject and simulated user, without judgements. It is
        NULL if a price or a count of tokens is unknown.
        """
        return self.rows(
            """
            with tests as (
                select episode_id, count(*) as n_tests,
                    count(*) filter (outcome = 'passed') as n_passed,
                    count(*) filter (outcome in ('failed', 'error', 'timeout')) as n_failed,
                    count(*) filter (outcome = 'infra') as n_infra
                from test_verdicts where run_id = $run group by episode_id),
            spent as (
                select episode_id, max(turn) as n_turns, count(*) as n_steps,
                    sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
                    sum(latency_s) as latency_s
                from steps where run_id = $run group by episode_id),
            requested as (
                select episode_id, if(role = 'assistant', 'subject', 'simulator') as role,
                    sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
                    count(*) filter (input_tokens is null or output_tokens is null) as n_unknown
                from steps
                where run_id = $run and (n_calls > 0 or role = 'assistant' and kind = 'message'
                    and not list_contains(labels, {'key': 'said_by', 'value': 'script'}))
                group by all),
            prices as (
                select role, usd_per_million_input, usd_per_million_output
                from run_roles
                inner join models using (model, revision, weights_digest, chat_template)
                where run_id = $run and role <> 'judge'),
            paid as (
                select episode_id, count(*) as n,
                    list(tokens_usd(input_tokens, output_tokens, usd_per_million_input,
                        usd_per_million_output)) filter (n_unknown = 0) as parts
                from requested left join prices using (role) group by episode_id)
            select episodes.*, tests.* exclude (episode_id), spent.* exclude (episode_id),
                runs.setting as run_setting,
                if(len(list_filter(parts, lambda usd: usd is not null)) = paid.n, list_sum(parts),
                    null) as usd
            from episodes
            inner join runs on runs.run_id = episodes.run_id
            left join tests on tests.episode_id = episodes.episode_id
            left join spent on spent.episode_id = episodes.episode_id
            left join paid on paid.episode_id = episodes.episode_id
            where episodes.run_id = $run
            order by episodes.problem_id, episodes.dialog_id, episodes.sample,
                episodes.episode_id
            """,
            run=run_id,
        )

    def parts_of(
        self, run_id: str, episode_ids: Sequence[str]
    ) -> Iterator[tuple[str, dict[str, list[dict[str, Any]]]]]:
        """Yield each dialogue with its `steps`, `test_verdicts`, `judge_verdicts` and `scores`."""
        for batch in self._batches(run_id, episode_ids):
            parts: dict[str, dict[str, list[dict[str, Any]]]] = {
                episode_id: {"steps": [], "test_verdicts": [], "judge_verdicts": [], "scores": []}
                for episode_id in batch
            }
            for table, order in (
                ("steps", "position"),
                ("test_verdicts", "turn, instruction_id"),
                ("judge_verdicts", "turn, rubric, dimension"),
                ("scores", "turn, metric, instruction_id"),
            ):
                wanted = "run_id = $run and list_contains($ids::varchar[], episode_id)"
                for row in self.rows(
                    f"select * from {table} where {wanted} order by {order}", run=run_id, ids=batch
                ):
                    parts[row["episode_id"]][table].append(row)
            yield from ((episode_id, parts[episode_id]) for episode_id in batch)

    def _batches(self, run_id: str, episode_ids: Sequence[str]) -> Iterator[list[str]]:
        """Yield batches of dialogues that fit into memory: an agent's has hundreds of steps."""
        counted = self.rows(
            "select episode_id, count(*) as n from steps where run_id = $run group by episode_id",
            run=run_id,
        )
        sizes = {row["episode_id"]: row["n"] for row in counted}
        return batches(
            episode_ids, lambda name: sizes.get(name, 0), STEPS_AT_ONCE, DIALOGUES_AT_ONCE
        )

    def context_of(self, run_id: str) -> dict[tuple[str, str], tuple[str, int]]:
        """Return (dialog, row digest) -> (context that the dialog continues, number of turns)."""
        rows = self.rows(
            """
            select dialog_id, dialogs.row_digest, context_id, context_turns from dialogs
            inner join runs using (benchmark, dataset_version)
            where run_id = $run and context_id is not null
            """,
            run=run_id,
        )
        return {
            (row["dialog_id"], row["row_digest"]): (row["context_id"], row["context_turns"])
            for row in rows
        }

    def context(self, context_id: str) -> list[dict[str, Any]]:
        """Return the turns of a context."""
        rows = self.rows("select turns from contexts where context_id = $id limit 1", id=context_id)
        return rows[0]["turns"] if rows else []

    def curve_tables(self) -> list[CurveTable]:
        """Return the result tables with values by turn or level."""
        columns: dict[str, dict[str, str]] = {}
        for row in self.rows(
            "select table_name, column_name, data_type from duckdb_columns() where not "
            "internal order by all"
        ):
            columns.setdefault(row["table_name"], {})[row["column_name"]] = row["data_type"]
        return [
            curves
            for name, types in columns.items()
            if (curves := curve_table(name, types)) is not None
        ]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return all rows of a result table.

        Rows of a run that stopped early have no intervals: see the view `stopped_runs`.
        """
        rows = self._labelled(self.rows(f"select * from {identifier(name)} order by all"))
        return [_without_intervals(row) if row["run_id"] in self._stopped else row for row in rows]

    @cached_property
    def _stopped(self) -> frozenset[str]:
        return frozenset(row["run_id"] for row in self.rows("select run_id from stopped_runs"))

    @cached_property
    def _compared_runs(self) -> Mapping[str, ComparedRun]:
        return {run.run_id: run for run in read_runs(self._connection)}

    def are_comparable(self, old: str, new: str) -> bool:
        """Return whether two runs differ only in the model.

        Setting, data, options, simulated user and share of the tasks are equal then.
        """
        runs = [self._compared_runs[run_id] for run_id in (old, new)]
        return len({(run.condition, run.task_share, run.subsample_seed) for run in runs}) == 1

    def compared(self, old: str, new: str, directions: Directions) -> list[dict[str, Any]]:
        """Compare two runs now: rows as in the table `comparisons`, without events.

        Args:
            directions: metric -> which direction is better.
        """
        run, other = self._compared_runs[new], self._compared_runs[old]
        return Comparisons(self._connection, directions).rows(run, other, REQUESTED)

    def changed(self, old: str, new: str) -> list[dict[str, Any]]:
        """Return the dialogues of two runs whose means of a metric differ, by problem."""
        return self.rows(
            """
            with pooled as (
                select pool_dialog.*, dialog_id
                from pool_dialog inner join episodes using (run_id, episode_id)
                where pool_dialog.run_id in ($old, $new) and episodes.run_id in ($old, $new))
            select a.problem_id, a.dialog_id, a.sample, a.metric, a.mean as old, b.mean as new,
                b.mean - a.mean as difference,
                a.episode_id as old_episode, b.episode_id as new_episode
            from pooled as a
            inner join pooled as b
                on (a.benchmark, a.dialog_id, a.sample, a.metric)
                = (b.benchmark, b.dialog_id, b.sample, b.metric)
            where a.run_id = $old and b.run_id = $new and a.mean is distinct from b.mean
            order by a.problem_id, a.dialog_id, a.sample, a.metric
            """,
            old=old,
            new=new,
        )


def _without_intervals(row: Row) -> dict[str, Any]:
    none = {name: None for name in row if name.endswith(("_low", "_high"))}
    return {**row, **none, "label": f"{row['label']} (stopped early: no intervals)"}
