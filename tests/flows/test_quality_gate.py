"""A corrupted table, whichever it is, withholds the run: exit 3, results kept, nothing of it in a mart."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.invocation import run_night
from flows.progress import Board
from tasks.benchmarks import codeif
from tasks.planning.request import BenchmarkRequest, EvaluationRequest, ModelRequest
from tasks.storage.home import Home
from tests.flows.drivers import ROOT
from tests.flows.parley_command import Done, ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
Row = dict[str, Any]
RUN = ("run", "codeif.static", "--model", "control:gold", "--limit", "1")


def corrupt(home: Path, table: str, below: str, change: Callable[[list[Row]], list[Row]]) -> None:
    """Rewrite a table's parts whose path holds `below`, with their schema and its version kept."""
    parts = [p for p in (home / "lake" / table).rglob("part-*.parquet") if below in str(p)]
    assert parts
    for part in parts:
        data = pq.ParquetFile(part).read()
        pq.write_table(pa.Table.from_pylist(change(data.to_pylist()), schema=data.schema), part)


def assert_withheld(home: Path, done: Done, table: str, expectation: str) -> None:
    assert done.code == 3, done.err
    assert f"quality check {table}" in done.err
    failed = ask(
        home, f"SELECT run_id, expectation FROM quality_checks WHERE NOT success AND blocking AND table_name = '{table}'"
    )
    assert expectation in {row["expectation"] for row in failed}
    run_id = failed[0]["run_id"]
    assert ask(home, f"SELECT status, docs_path IS NOT NULL AS docs FROM runs WHERE run_id = '{run_id}'") == [
        {"status": "withheld", "docs": True}
    ]
    for mart in ("leaderboard", "codeif_turns", "scores", "test_verdicts", "turns"):
        assert ask(home, f"SELECT count(*) n FROM {mart} WHERE run_id = '{run_id}'") == [{"n": 0}]
    assert (home / ask(home, f"SELECT docs_path FROM runs WHERE run_id = '{run_id}'")[0]["docs_path"]).is_file()


def negative_tokens(rows: list[Row]) -> list[Row]:
    rows[0]["steps"][1]["output_tokens"] = -5
    return rows


def without_last(rows: list[Row]) -> list[Row]:
    return rows[:-1]


def without_base(rows: list[Row]) -> list[Row]:
    rows[0]["instructions"][0]["instruction_id"] = "something else"
    return rows


def swapped_roles(rows: list[Row]) -> list[Row]:
    rows[0]["turns"] = [{**turn, "role": "assistant" if turn["role"] == "user" else "user"} for turn in rows[0]["turns"]]
    return rows


@pytest.mark.parametrize(
    ("seed", "table", "change", "expectation"),
    [(11, "episodes", negative_tokens, "counts_not_negative"), (12, "test_verdicts", without_last, "due_verdict_present")],
)
def test_a_run_with_a_corrupted_table_is_withheld(
    standing_home: Path, seed: int, table: str, change: Callable[[list[Row]], list[Row]], expectation: str
) -> None:
    run = (*RUN, "--dataset-version", "sample", "--seed", str(seed))
    line = parley(standing_home, *run, "--json").json()
    corrupt(standing_home, table, line["run_id"], change)
    done = parley(standing_home, *run, "--max-fault-share", "0.02")  # another limit: the finished run is looked at again
    assert_withheld(standing_home, done, table, expectation)


@pytest.mark.parametrize(
    ("version", "table", "change", "expectation"),
    [
        ("current", "problems", without_base, "base_instruction_first"),
        ("v0", "dialogs", swapped_roles, "user_and_assistant_alternate"),
    ],
)
def test_a_run_on_a_corrupted_dataset_is_withheld(
    standing_home: Path, version: str, table: str, change: Callable[[list[Row]], list[Row]], expectation: str
) -> None:
    sample = ROOT / "tasks" / "benchmarks" / "codeif" / "sample"
    source = next(path for path in sample.iterdir() if ".jsonl" in path.name)
    assert parley(standing_home, "stage", "codeif", "--data", source, "--dataset-version", version).code == 0
    corrupt(standing_home, table, f"dataset={version}", change)
    assert_withheld(standing_home, parley(standing_home, *RUN, "--dataset-version", version), table, expectation)


def test_a_run_with_impossible_scores_is_withheld(standing_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = codeif.BENCHMARK

    def seven(*arguments: Any) -> tuple[Any, ...]:
        return tuple(s.model_copy(update={"value": 7.0}) if s.value is not None else s for s in right.score(*arguments))

    monkeypatch.setattr(codeif, "BENCHMARK", dataclasses.replace(right, score=seven))
    request = EvaluationRequest(
        model=ModelRequest(spec="control:gold"),
        benchmark=BenchmarkRequest(name="codeif.static", dataset_version="sample", limit=1, seed=13),
    )
    outcome = run_night(Home(standing_home), [request], Board())
    assert [r.status for r in outcome.reports] == ["withheld"]
    assert_withheld(standing_home, Done(3, "", str(outcome.reports[0].reason)), "scores", "value_in_range")
