"""The paper's Table 2: a judge beside people, on the same dialogues."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tasks.benchmarks.dialogue_swebench.exports import asking_and_resolving, judges
from warehouse.connect import FILE_NAME, Rows
from warehouse.publication.migrate import statements

Row = dict[str, Any]
RowsOf = Callable[[Path, Sequence[str]], Rows]


class Tables:
    """A warehouse of a few rows."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._connection = duckdb.connect(str(home / FILE_NAME))
        for table in statements():
            if table.name in ("runs", "judge_verdicts", "ratings"):
                self._connection.execute(table.statement)
        self._connection.execute(
            "create table dialogue_swebench_agents (run_id varchar, model varchar, setting varchar,"
            ' dataset_version varchar, "sample" varchar, axis varchar, resolved double,'
            " n_resolved bigint, n_resolved_unscored bigint, turns double, steps double,"
            " asks double, n_asks bigint, isolated boolean)"
        )

    def add(self, table: str, **values: object) -> None:
        """One row; what is not named has an empty value of its type where it must have one."""
        told = self._connection.execute(f"describe {table}").fetchall()
        empty = {
            name: _EMPTY.get(kind, []) if null == "NO" else None for name, kind, null, *_ in told
        }
        row = {**empty, **values}
        self._connection.execute(
            f"insert into {table} values ({', '.join('?' * len(row))})", list(row.values())
        )

    def run(self, run_id: str, finished_at: str, model: str = "m", **spec: object) -> None:
        named = {
            "run_id": run_id,
            "benchmark": "dialogue_swebench",
            "model": model,
            "setting": "full_judged",
        }
        self.add(
            "runs",
            **named,
            finished_at=finished_at,
            spec_json=json.dumps({"setting": "full_judged"} | spec),
        )

    def judged(
        self, run_id: str, episode: str, rubric: str, judge: str = "j", **values: float | None
    ) -> None:
        for dimension, value in values.items():
            name = "" if dimension == "whole" else dimension
            of = {
                "run_id": run_id,
                "benchmark": "dialogue_swebench",
                "episode_id": episode,
                "problem_id": episode[-2:],
            }
            self.add(
                "judge_verdicts", **of, rubric=rubric, judge=judge, dimension=name, value=value
            )

    def rated(self, episode: str, rubric: str, rater: str = "ann", **values: float) -> None:
        for dimension, value in values.items():
            name = "" if dimension == "whole" else dimension
            self.add(
                "ratings",
                benchmark="dialogue_swebench",
                episode_id=episode,
                rubric=rubric,
                rater=rater,
                dimension=name,
                value=value,
            )

    def table(self, run_ids: Sequence[str] = (), export: RowsOf = judges) -> list[Row]:
        self._connection.close()
        names, rows = export(self.home, run_ids)
        return [dict(zip(names, row, strict=True)) for row in rows]


_EMPTY: dict[str, object] = {"VARCHAR": "", "BIGINT": 0, "BOOLEAN": False, "DOUBLE": 0.0}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_a_judge_is_compared_on_the_dialogues_that_people_rated(tables: Tables):
    """An older run of the same system has other dialogues of the same tasks: what people said of
    those says nothing of these.
    """
    tables.run("old", "2026-01-01")
    tables.run("new", "2026-02-01")
    for n, (judge, person) in enumerate([(1, 1), (2, 2), (3, 3), (3, 2)]):
        tables.judged("new", f"new-p{n}", "naturalness", whole=judge)
        tables.rated(f"new-p{n}", "naturalness", whole=person)
        tables.judged("old", f"old-p{n}", "naturalness", whole=3)
        tables.rated(f"old-p{n}", "naturalness", whole=1)
    natural, coherent = tables.table()
    assert (natural["judge"], natural["n_dialogues"], round(natural["kappa"], 9)) == (
        "j",
        4,
        0.8,
    ), "1 - 1/5 by hand"
    assert (coherent["judge"], coherent["n_dialogues"], coherent["kappa"]) == (None, 0, None)


def test_judges_are_kept_apart(tables: Tables):
    tables.run("r", "2026-01-01")
    for n in range(3):
        tables.judged("r", f"r-p{n}", "naturalness", judge="good", whole=n + 1)
        tables.judged("r", f"r-p{n}", "naturalness", judge="bad", whole=3 - n)
        tables.rated(f"r-p{n}", "naturalness", whole=n + 1)
    assert [
        (row["judge"], round(row["kappa"], 9))
        for row in tables.table()
        if row["rubric"] == "naturalness"
    ] == [
        ("bad", -1.0),
        ("good", 1.0),
    ]


def test_runs_of_other_simulators_and_judges_of_other_versions_are_kept_apart(tables: Tables):
    """The judge of another rubric is no part of a row's condition."""
    j1, j2 = ({"provider": "openai", "name": "j", "revision": revision} for revision in "12")
    user = {"provider": "openai", "name": "u"}
    natural = [{"rubric": "naturalness", "judge": judge} for judge in (j1, j2)]
    tables.run("a", "2026-01-01", "a", judges=[natural[0]], simulator=user)
    tables.run(
        "b",
        "2026-01-02",
        "b",
        judges=[natural[0], {"rubric": "coherence", "judge": j2}],
        simulator=user,
    )
    tables.run("c", "2026-01-03", "a", judges=[natural[1]], simulator=user)
    tables.run("d", "2026-01-04", "a", judges=[natural[0]], simulator=j1)
    for name, n_dialogues in (("a", 3), ("b", 2), ("c", 4), ("d", 5)):
        for n in range(n_dialogues):
            tables.judged(name, f"{name}-p{n}", "naturalness", whole=1 + n % 3)
            tables.rated(f"{name}-p{n}", "naturalness", whole=1 + n % 3)
    found = [row for row in tables.table() if row["rubric"] == "naturalness"]
    assert sorted((row["n_dialogues"], row["simulator"]) for row in found) == [
        (4, "openai:u"),
        (5, "openai:j"),
        (5, "openai:u"),
    ]
    assert len({row["conditions"] for row in found}) == 3


def test_half_a_coherence_is_none(tables: Tables):
    tables.run("r", "2026-01-01")
    both: list[tuple[dict[str, float | None], dict[str, float]]] = [
        ({"local": 1, "global": 1}, {"local": 1, "global": 1}),
        ({"local": 0, "global": 1}, {"whole": 2}),
        ({"local": 0, "global": 0}, {"local": 1}),
        ({"local": 1, "global": None}, {"local": 1, "global": 0}),
    ]
    for n, (judge, person) in enumerate(both):
        tables.judged("r", f"r-p{n}", "coherence", **judge)
        tables.rated(f"r-p{n}", "coherence", **person)
    (row,) = (row for row in tables.table() if row["rubric"] == "coherence")
    assert (row["n_dialogues"], row["kappa"]) == (2, 1.0)


@pytest.mark.slow
def test_systems_are_ranked_on_the_tasks_that_both_were_rated_on(tables: Tables):
    for model, rating in (("a", 3), ("b", 1)):
        tables.run(model, "2026-01-01", model)
        for n in range(10, 22):
            tables.judged(model, f"{model}-{n}", "naturalness", whole=rating)
            tables.rated(f"{model}-{n}", "naturalness", whole=max(1, rating - 1))
    (row,) = (row for row in tables.table() if row["rubric"] == "naturalness")
    assert (row["rank_accuracy"], row["n_pairs"], row["n_pairs_compared"]) == (1.0, 1, 1)


@pytest.mark.parametrize(
    ("run_ids", "resolved"), [((), [0.2]), (("new", "old"), [0.2, 0.1]), (("old",), [0.1])]
)
def test_the_newest_run_of_a_condition_counts_and_each_one_that_is_named(
    tables: Tables, run_ids: Sequence[str], resolved: list[float]
):
    tables.run("old", "2026-01-01")
    tables.run("new", "2026-02-01")
    same = {"model": "m", "setting": "full_judged", "sample": "all", "axis": "all", "n_asks": 3}
    tables.add("dialogue_swebench_agents", run_id="old", resolved=0.1, **same)
    tables.add("dialogue_swebench_agents", run_id="new", resolved=0.2, **same)
    rows = tables.table(run_ids, asking_and_resolving)
    assert [row["resolved"] for row in rows] == resolved
