"""The main table: a row is one condition, and the newest run of each counts."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from schemas.content_id import canonical_json
from schemas.run import ModelIdentity, RunSpec, Sampling
from tasks.benchmarks.talk2code import BENCHMARK
from tasks.benchmarks.talk2code.exports import main_table

FIGURES = (files("tasks.benchmarks.talk2code") / "queries" / "figures.sql").read_text(
    encoding="utf-8"
)
NAMES = re.findall(r"^    levels\.(\w+),?$", FIGURES, re.MULTILINE)
TEXTS = ("run_id", "model", "dataset_version", "track", "level")
MODEL = ModelIdentity(provider="openai", name="m", revision="1")


def simulator(name: str) -> ModelIdentity:
    return ModelIdentity(provider="openai", name=name, revision="1")


def spec(
    setting: str = "direct", *, options: Mapping[str, str] | None = None, **fields: Any
) -> RunSpec:
    """A run of the model on one version of the data, with its options as plans record them."""
    episode, scoring = BENCHMARK.split_options(setting, options or {})
    known = {
        "episode_options": episode,
        "scoring_options": scoring,
        "benchmark": "talk2code",
        "benchmark_version": "1",
        "dataset_version": "1",
        "dataset_digest": "d",
        "subject": MODEL,
    }
    return RunSpec(**{**known, "setting": setting, **fields})


def published(home: Path, *runs: tuple[RunSpec, float | None, float]) -> None:
    """A warehouse with these runs, the later ones the newer: each with the share of its tasks, and
    its TP.
    """
    home.mkdir(parents=True)
    with duckdb.connect(home / "warehouse.duckdb") as tables:
        kinds = (
            f"{name} {'text' if name in TEXTS else 'boolean' if name == 'isolated' else 'double'}"
            for name in NAMES
        )
        tables.execute(f"create table talk2code_levels ({', '.join(kinds)}, axis text)")
        tables.execute(
            "create table runs (run_id text, finished_at text, task_share double, "
            "subsample_seed bigint, spec_json text)"
        )
        for number, (one, share, tp) in enumerate(runs):
            facts = [
                f"run {number}",
                f"2026-01-{number + 1:02}",
                share,
                canonical_json(one.model_dump(mode="json")),
            ]
            tables.execute("insert into runs values (?, ?, ?, null, ?)", facts)
            track = one.setting.partition("_")[0]
            row = {
                "run_id": f"run {number}",
                "model": "openai:m",
                "dataset_version": "1",
                "track": track,
                "level": "novice",
            }
            row |= {"tp": tp, "n_tp": 9, "isolated": True, "axis": "level"}
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            tables.execute(
                f"insert into talk2code_levels ({names}) values ({marks})", list(row.values())
            )


def rows_of(home: Path, *wanted: str) -> set[tuple[object, ...]]:
    columns, rows = main_table(home, ())
    return {tuple(row[columns.index(name)] for name in wanted) for row in rows}


def test_the_newest_run_of_each_condition_counts(home: Path) -> None:
    """A share of the tasks is a condition: such runs have rows of their own beside the whole
    ones.
    """
    published(
        home, (spec(), None, 0.25), (spec(), None, 0.5), (spec(), 0.1, 1.0), (spec(), 0.9, 0.75)
    )
    assert rows_of(home, "task_share", "direct_tp") == {(1.0, 0.5), (0.1, 1.0), (0.9, 0.75)}


def test_runs_of_ten_and_of_two_turns_stand_in_two_rows(home: Path) -> None:
    """They stood side by side in one.

    Ten turns are the default, which no plan records. The direct run has no turns and no simulator:
    it stands in both rows.
    """
    user: dict[str, Any] = {"simulator": simulator("user")}
    published(
        home,
        (spec(), None, 0.5),
        (spec("interactive", **user), None, 0.75),
        (spec("interactive", options={"turns": "2"}, **user), None, 0.25),
    )
    wanted = ("options", "simulator", "direct_tp", "interactive_tp")
    assert rows_of(home, *wanted) == {
        ('{"extraction": "first_block", "turns": "10"}', "openai:user", 0.5, 0.75),
        ('{"extraction": "first_block", "turns": "2"}', "openai:user", 0.5, 0.25),
    }


def test_programs_that_are_extracted_otherwise_stand_in_other_rows(home: Path) -> None:
    """The option is one of scoring in direct settings, and of dialogues in interactive ones."""
    markdown: dict[str, Any] = {"options": {"extraction": "markdown"}}
    published(
        home,
        (spec(**markdown), None, 0.5),
        (spec("interactive", simulator=simulator("user"), **markdown), None, 0.75),
        (spec(), None, 0.25),
    )
    assert rows_of(home, "options", "direct_tp", "interactive_tp") == {
        ('{"extraction": "markdown", "turns": "10"}', 0.5, 0.75),
        ('{"extraction": "first_block"}', 0.25, None),
    }


def test_the_day_of_a_hosted_simulator_is_no_condition(home: Path) -> None:
    """The sampling of its own is one."""
    days = [
        ModelIdentity(provider="openai", name="user", revision=f"unpinned-2026-01-0{n}")
        for n in (1, 2)
    ]
    warm = Sampling(temperature=0.7)
    published(
        home,
        (spec("interactive", simulator=days[0]), None, 0.25),
        (spec("interactive_judged", simulator=days[1]), None, 0.5),
        (spec("interactive", simulator=days[1], simulator_sampling=warm), None, 0.75),
    )
    assert {
        (tp, "0.7" in str(text))
        for tp, text in rows_of(home, "interactive_tp", "simulator_sampling")
    } == {(0.5, False), (0.75, True)}


def test_simulators_and_samplings_are_conditions(home: Path) -> None:
    warm = Sampling(temperature=0.7)
    published(
        home,
        (spec(sampling=warm), None, 0.1),
        (spec("interactive", simulator=simulator("a")), None, 0.2),
        (spec("interactive", simulator=simulator("b")), None, 0.3),
        (spec("interactive", simulator=simulator("b")), None, 0.4),
    )
    assert rows_of(home, "simulator", "direct_tp", "interactive_tp") == {
        (None, 0.1, None),
        ("openai:a", None, 0.2),
        ("openai:b", None, 0.4),
    }
    assert len(rows_of(home, "conditions")) == 3


def test_a_run_without_judges_stands_with_a_judged_one_of_the_same_dialogues(home: Path) -> None:
    talk: dict[str, Any] = {"simulator": simulator("user")}
    published(
        home,
        (spec("interactive_judged", options={"level_sample": "all"}, **talk), None, 0.5),
        (spec("interactive", **talk), None, 0.6),
    )
    [(tp, options)] = rows_of(home, "interactive_tp", "scoring_options")
    assert (tp, json.loads(str(options))["level_sample"]) == (0.6, "all")
