"""Curves to plot, and the correlation of static and live runs, from a published warehouse."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from flows.cli.exports.exporting import find_export
from schemas.errors import ConfigError, UnknownName, UsageError
from tasks.benchmarks.convcode.exports import EXPORTS
from tasks.storage.home import Home
from tests.tasks.benchmarks.convcode.played import live, static
from tests.tasks.benchmarks.convcode.small_lake import SIMULATOR, ConvCodeLake, model

pytestmark = pytest.mark.slow

EXPERT, REPLAYED = "live[f_c,f_e*,f_v*]", "static[f_c,f_e*,f_v*]"
TURNS = {"turns": "3"}
SHOWN = {"coverage": "first_three_tests"}
LATER = "2026-01-09T00:00:00Z"
MODELS = ("a", "b", "c", "d", "e")
LIVE_MARKS = ("+", "-+", "--+", "---+", "+")
"""MRR 1, 1/2, 1/3, 1/4 in the order of the models; the last one's newer run comes to 0."""
STATIC_MARKS = ("+---", "-+--", "--+-", "----", "---+")
"""The same order, but the last two change places."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five models live and static, a sixth live only, the reference itself, a control, and a newer
    run of model `e`.
    """
    lake = ConvCodeLake(tmp_path_factory.mktemp("convcode"))
    for name, played, replayed in zip(MODELS, LIVE_MARKS, STATIC_MARKS, strict=True):
        lake.run(model(name), EXPERT, (live(played),), TURNS, SIMULATOR)
        lake.run(model(name), REPLAYED, (static(replayed, 3),))
    lake.run(model("a"), EXPERT, (live("----"),), {"turns": "2"}, SIMULATOR)
    lake.run(model("live-only"), EXPERT, (live("----"),), TURNS, SIMULATOR)
    for other in (model("reference-7b"), model("gold", "control")):
        lake.run(other, EXPERT, (live("----"),), TURNS, SIMULATOR)
        lake.run(other, REPLAYED, (static("+---", 3),))
    lake.run(
        model("e"),
        EXPERT,
        (live("----"), live("----", name="Sample/2")),
        TURNS,
        SIMULATOR,
        finished_at=LATER,
    )
    lake.publish()
    return lake.home


def exported(home: Path, name: str, *run_ids: str) -> list[dict[str, Any]]:
    columns, rows = EXPORTS[name].rows(home, run_ids)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_the_correlation_is_over_the_models_that_have_both(home: Path) -> None:
    """Two neighbours of five changed places: rho 0.9. Neither the control nor the reference nor
    another length is among them.
    """
    with_figure = [row for row in exported(home, "correlation") if row["turns"] == 3]
    assert [
        (r["static_metric"], r["live_metric"], r["n_models"], r["spearman"], r["note"])
        for r in with_figure
    ] == [
        ("mrr", "mrr", 5, pytest.approx(0.9), ""),
        ("mrr_upstream", "mrr", 5, pytest.approx(0.9), ""),
        ("recall", "recall", 5, pytest.approx(-0.25), ""),
    ]
    assert with_figure[0]["p"] == pytest.approx(10 / 120)
    assert {
        (r["feedback"], r["reference_model"], r["live_options"], r["dataset_version"])
        for r in with_figure
    } == {("f_c,f_e*,f_v*", "reference-7b", '[["turns","3"]]', "sample")}


def test_fewer_than_five_models_are_insufficient_and_have_no_figure(home: Path) -> None:
    """Runs of two turns have no static counterpart."""
    rows = [row for row in exported(home, "correlation") if row["turns"] == 2]
    assert {(r["n_models"], r["spearman"], r["p"], r["note"]) for r in rows} == {
        (0, None, None, "insufficient: 0 of at least 5 models")
    }


def test_a_curve_is_the_newest_run_of_a_model_and_kind(home: Path) -> None:
    rows = [
        row
        for row in exported(home, "curves")
        if row["part"] == "live" and row["options"] == '[["turns","3"]]'
    ]
    assert [(r["turn"], r["pass_at_1"], r["n"]) for r in rows if r["model"] == "openai:b"] == [
        (0, 0, 1),
        (1, 1, 1),
        (2, 1, 1),
        (3, 1, 1),
    ]
    assert {r["n"] for r in rows if r["model"] == "openai:e"} == {2}
    assert all(r["pass_at_1_low"] <= r["pass_at_1"] <= r["pass_at_1_high"] for r in rows)


def test_only_the_runs_that_are_named_are_exported(home: Path) -> None:
    some = {
        row["run_id"]
        for row in exported(home, "curves")
        if row["model"] in ("openai:a", "openai:b")
    }
    assert {row["run_id"] for row in exported(home, "curves", *some)} == some
    few = exported(home, "correlation", *some)
    assert {row["n_models"] for row in few if row["turns"] == 3} == {2}


def test_static_runs_have_a_table_by_reference_model_with_both_readings_of_mrr(home: Path) -> None:
    """Tables 5, 11 and 12."""
    rows = exported(home, "static-table")
    assert {row["reference_model"] for row in rows} == {"reference-7b"}
    assert {row["model"] for row in rows} == {
        *(f"openai:{name}" for name in MODELS),
        "openai:reference-7b",
    }
    assert list(rows[0])[6:11] == [
        "f_c,f_v*",
        "f_c,f_e,f_v",
        "f_c,f_e,f_v*",
        "f_c,f_e*,f_v",
        "f_c,f_e*,f_v*",
    ]
    found = {(row["model"], row["metric"]): row["f_c,f_e*,f_v*"] for row in rows}
    assert [found[f"openai:{name}", "mrr"] for name in MODELS] == [
        1,
        0.5,
        pytest.approx(1 / 3),
        0,
        0.25,
    ]
    assert (found["openai:a", "n_mrr"], found["openai:a", "n_mrr_unscored"]) == (1, 0)
    assert {row["f_c,f_v*"] for row in rows} == {None}


SPEAKERS = ("live[f_c,f_v*]", "live[f_c,ground_truth]", "live[f_c,f_e,f_v]")
OTHER = SIMULATOR.model_copy(update={"name": "other"})


@pytest.fixture(scope="module")
def spoken_to(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two subjects with two experts each, one of them with the reference code; a novice and a
    control beside them.
    """
    lake = ConvCodeLake(tmp_path_factory.mktemp("speakers"))
    one = {"turns": "1"}
    for name, played in (("a", "-+"), ("b", "--")):
        for simulator in (SIMULATOR, OTHER):
            lake.run(
                model(name), SPEAKERS[0], (live(played), live("+", name="Sample/2")), one, simulator
            )
    lake.run(model("a"), SPEAKERS[1], (live("-+"), live("-+", name="Sample/2")), one)
    lake.run(model("a"), SPEAKERS[2], (live("-+"),), one | SHOWN, SIMULATOR)
    lake.run(model("gold", "control"), SPEAKERS[0], (live("+"),), one, SIMULATOR)
    lake.publish()
    return lake.home


def test_one_round_by_speaker_and_subject_with_the_reference_code_beside(spoken_to: Path) -> None:
    """Tables 7 and 9."""
    rows = exported(spoken_to, "speakers")
    assert [
        (row["feedback"], row["simulator"], row["model"], row["turn_0"], row["turn_1"], row["n"])
        for row in rows
    ] == [
        ("f_c,f_v*", "openai:other", "openai:a", 0.5, 1, 2),
        ("f_c,f_v*", "openai:other", "openai:b", 0.5, 0.5, 2),
        ("f_c,f_v*", "openai:speaker", "openai:a", 0.5, 1, 2),
        ("f_c,f_v*", "openai:speaker", "openai:b", 0.5, 0.5, 2),
        ("f_c,ground_truth", None, "openai:a", 0, 1, 2),
    ]
    assert {row["turns"] for row in rows} == {1}


def test_leakage_has_a_row_for_each_speaker_with_its_n(spoken_to: Path) -> None:
    """Table 8. The setting that shows the reference code has no speaker, and a novice does not know
    it.
    """
    rows = exported(spoken_to, "leakage")
    assert {(row["simulator"], row["feedback"]) for row in rows} == {
        ("openai:other", "f_c,f_v*"),
        ("openai:speaker", "f_c,f_v*"),
    }
    assert {row["n_mentions_reference"] is None for row in rows} == {False}


PAPER = [
    *("none", "f_c", "f_c,f_e", "f_c,f_e*", "f_c,f_v", "f_c,f_e,f_v", "f_c,f_e*,f_v"),
    *("f_c,f_v*", "f_c,f_e,f_v*", "f_c,f_e*,f_v*"),
]
"""The columns of the paper's tables 3 and 4."""


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model `a`: none, f_c twice, f_c,f_e; other turns, coverage and data.

    `b`: f_c, of which nothing is scored. A control.
    """
    lake = ConvCodeLake(tmp_path_factory.mktemp("main"))
    a = model("a")
    two = (live("+"), live("----", name="Sample/2"))
    lake.run(a, "live[none]", (live("+"), live("-", name="Sample/2")))
    lake.run(a, "live[f_c]", (live("+"),), TURNS)
    lake.run(a, "live[f_c]", (live("-+"), live("--+", name="Sample/2")), TURNS, finished_at=LATER)
    lake.run(a, "live[f_c,f_e]", two, TURNS | SHOWN)
    lake.run(
        a,
        "live[f_c,f_e]",
        (live("----"),),
        TURNS | {"coverage": "upstream_first_three_methods"},
        finished_at=LATER,
    )
    lake.run(a, EXPERT, (live("-+"),), {"turns": "1"}, SIMULATOR, finished_at=LATER)
    lake.run(a, "live[f_c]", (live("--"),), TURNS, finished_at=LATER, dataset_version="mbpp")
    lake.run(a, REPLAYED, (static("+---", 3),))
    lake.run(model("b"), "live[f_c]", (live("i"),), TURNS)
    lake.run(model("gold", "control"), "live[none]", (live("+"),))
    lake.publish()
    return lake.home


def main_row(
    home: Path, *, metric: str = "mrr", of: str = "openai:a", **wanted: object
) -> dict[str, Any]:
    """Column -> value of the one row, less the settings that are empty."""
    rows = [
        row for row in exported(home, "main-table") if (row["model"], row["metric"]) == (of, metric)
    ]
    (found,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    assert list(found)[6 : 6 + len(PAPER)] == PAPER
    return {name: found[name] for name in PAPER if found[name] is not None}


def test_the_main_table_has_the_newest_run_of_each_setting_and_empty_cells(ten: Path) -> None:
    """None: 1 and 0; f_c: 1/2 and 1/3 in the newer of two runs; f_c,f_e: 1 and 0. The others were
    not run.
    """
    row = {"dataset_version": "sample", "turns": 3, **SHOWN}
    assert main_row(ten, **row) == {"none": 0.5, "f_c": pytest.approx(5 / 12), "f_c,f_e": 0.5}
    assert main_row(ten, metric="recall", **row) == {"none": 0.5, "f_c": 1, "f_c,f_e": 0.5}
    assert main_row(ten, metric="n_mrr", **row) == {"none": 2, "f_c": 2, "f_c,f_e": 2}
    assert main_row(ten, metric="n_recall_unscored", **row) == {"none": 0, "f_c": 0, "f_c,f_e": 0}


def test_a_cell_of_which_nothing_is_scored_is_empty_and_says_so_in_its_n(ten: Path) -> None:
    assert main_row(ten, of="openai:b") == main_row(ten, of="openai:b", metric="recall") == {}
    assert main_row(ten, of="openai:b", metric="n_mrr") == {"f_c": 0}
    assert main_row(ten, of="openai:b", metric="n_mrr_unscored") == {"f_c": 1}


def test_other_data_and_other_options_have_rows_of_their_own(ten: Path) -> None:
    """A setting that lacks an option stands in each row of its values."""
    assert main_row(ten, dataset_version="mbpp") == {"f_c": 0}
    other = main_row(ten, turns=3, coverage="upstream_first_three_methods")
    assert other == {"none": 0.5, "f_c": pytest.approx(5 / 12), "f_c,f_e": 0}
    assert main_row(ten, turns=1) == {"none": 0.5, "f_c,f_e*,f_v*": 0.5}
    assert len([row for row in exported(ten, "main-table") if row["metric"] == "mrr"]) == 5


def test_controls_are_in_the_main_table_only_where_they_are_named(ten: Path) -> None:
    every = exported(ten, "curves")
    assert {row["model"] for row in exported(ten, "main-table")} == {"openai:a", "openai:b"}
    gold = next(row["run_id"] for row in every if row["model"] == "control:gold")
    named = [row for row in exported(ten, "main-table", gold) if row["metric"] == "mrr"]
    assert [
        (row["model"], row["none"], row["f_c"], row["turns"], row["isolated"]) for row in named
    ] == [("control:gold", 1, None, None, True)]
    replayed = next(row["run_id"] for row in every if row["part"] == "static")
    with pytest.raises(UsageError, match="no rows of the runs"):
        find_export("convcode-main-table").write(Home(ten), (replayed,), ten / "x.csv")


def test_an_empty_cell_is_empty_in_a_file_too(ten: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    assert find_export("convcode-main-table").write(Home(ten), (), out) == 5 * 6
    found = [
        row
        for row in csv.DictReader(out.read_text(encoding="utf-8").splitlines())
        if row["model"] == "openai:b"
    ]
    assert [(row["metric"], row["f_c"], row["f_c,f_e"]) for row in found[:3]] == [
        ("mrr", "", ""), ("n_mrr", "0", ""), ("n_mrr_unscored", "1", ""),
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [".csv", ".json", ".jsonl"])
def test_a_table_is_written_as_its_name_ends(home: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / "new" / f"curves{ending}"
    wanted = exported(home, "curves")
    assert find_export("convcode-curves").write(Home(home), (), out) == len(wanted)
    text = out.read_text(encoding="utf-8")
    if ending == ".csv":
        found = list(csv.DictReader(text.splitlines()))
        assert [row["pass_at_1"] for row in found] == [str(row["pass_at_1"]) for row in wanted]
    else:
        assert (
            json.loads(text)
            if ending == ".json"
            else [json.loads(line) for line in text.splitlines()]
        ) == wanted
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_what_cannot_be_exported_is_said(home: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UnknownName,
        match=r"'convcode-curve'; known: inspect, .*convcode-curves, convcode-correlation",
    ):
        find_export("convcode-curve").write(Home(home), (), tmp_path / "x.csv")
    with pytest.raises(ConfigError, match=r"\.csv, \.json, \.jsonl"):
        find_export("convcode-curves").write(Home(home), (), tmp_path / "x.xlsx")
    with pytest.raises(UsageError, match="no run 'abc'"):
        find_export("convcode-curves").write(Home(home), ("abc",), tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "x.csv", tmp_path / f"{'x' * 300}.csv"):
        with pytest.raises(UsageError, match=r"\.csv: cannot be written"):
            find_export("convcode-curves").write(Home(home), (), out)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_runs_whose_feedback_is_not_replayed_have_nothing_to_correlate(tmp_path: Path) -> None:
    lake = ConvCodeLake(tmp_path)
    lake.run(model("a"), "live[f_c]", (live("-+"),), TURNS)
    lake.publish()
    with pytest.raises(UsageError, match=r"static\[f_c,f_e,f_v\], .*matching live"):
        EXPORTS["correlation"].rows(tmp_path, ())


def test_a_warehouse_without_runs_of_the_benchmark_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="parley run"):
        EXPORTS["curves"].rows(tmp_path, ())
