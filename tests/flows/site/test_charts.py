"""Curves: each measure with its own n, named axes, a colour for each model; what a table merely
repeats is none.
"""

from typing import Any

import pytest

from flows.site.charts import charts, history_chart
from flows.site.labels import metric_of, model_colours, place_names
from flows.site.pages import render
from tasks.benchmarks.registry import BENCHMARKS
from tasks.metrics.registry import METRICS
from warehouse.descriptions import CurveTable, counts_of, curve_table
from warehouse.wide_tables import WideTable

RUN = {"run_id": "varchar", "model": "varchar", "setting": "varchar", "dataset_version": "varchar"}


def measured(*names: str) -> dict[str, str]:
    return {f"{name}{end}": "DOUBLE" for name in names for end in ("", "_low", "_high")}


def test_each_measure_has_its_own_n() -> None:
    columns = ["n", "n_unscored", "n_ca", "n_ca_unscored", "n_ifr", "n_if", "n_if_unscored"]
    assert counts_of(columns, ["ia", "ca_strict", "ca_fraction", "ifr", "if_"]) == {
        "ia": ("n", "n_unscored"),
        "ca_strict": ("n_ca", "n_ca_unscored"),
        "ca_fraction": ("n_ca", "n_ca_unscored"),
        "ifr": ("n_ifr", None),
        "if_": ("n_if", "n_if_unscored"),
    }


def test_an_n_that_may_be_of_another_measure_is_not_shown() -> None:
    assert counts_of(["n", "n_a"], ["a", "b", "c"]) == {
        "a": ("n_a", None),
        "b": (None, None),
        "c": (None, None),
    }
    assert counts_of(["n", "n_unscored"], ["a", "b"]) == dict.fromkeys("ab", ("n", "n_unscored"))
    assert counts_of([], ["a"]) == {"a": (None, None)}


@pytest.mark.parametrize("lacking", sorted(RUN))
def test_a_table_that_does_not_say_whose_its_values_are_is_no_curve(lacking: str) -> None:
    columns = {**RUN, "turn": "BIGINT", "note": "VARCHAR", **measured("x")}
    found = curve_table("t", columns)
    assert found == CurveTable("t", "turn", ("note",), ("x",), {"x": (None, None)})
    del columns[lacking]
    assert curve_table("t", columns) is None


def test_every_measure_of_the_bundled_marts_has_an_n_of_its_own() -> None:
    drawn: dict[str, CurveTable] = {}
    for mart in (
        mart
        for name in BENCHMARKS.names()
        for mart in BENCHMARKS.load(name).results.marts
        if isinstance(mart, WideTable)
    ):
        found = curve_table(mart.name, dict.fromkeys(mart.columns, ""))
        if found is not None:
            drawn[mart.name] = found
    assert drawn.keys() >= {"codeif_turns", "convcode_settings", "talk2code_levels"}
    for name, found in drawn.items():
        assert all(
            n is not None and unscored is not None for n, unscored in found.counts.values()
        ), (name, found.counts)


TABLE = CurveTable(
    "t", "turn", ("axis",), ("x", "whole"), {"x": ("n", "n_unscored"), "whole": ("n_whole", None)}
)


def row(
    turn: int, x: float | None, axis: str = "turn", run: str = "r1", **more: Any
) -> dict[str, Any]:
    shared = {
        "run_id": run,
        "model": "m",
        "label": f"m {run}",
        "setting": "s",
        "dataset_version": "v",
    }
    whole = {"whole": 0.5, "whole_low": 0.4, "whole_high": 0.6, "n_whole": 9}
    return {
        **shared,
        **whole,
        "turn": turn,
        "axis": axis,
        "x": x,
        "x_low": None,
        "x_high": None,
        "n": turn,
        "n_unscored": 3,
        **more,
    }


def test_a_curve_is_headed_by_its_axis_and_a_figure_of_the_run_is_none() -> None:
    rows = [
        row(1, 0.1),
        row(2, 0.2),
        row(1, 0.3, "strategy_slot"),
        row(2, 0.3, "strategy_slot"),
        row(1, 1.0, "lonely"),
    ]
    drawn = list(charts(rows, TABLE, {}))
    assert [(one["measure"], one["axis"], one["title"]) for one in drawn] == [
        ("x", "strategy_slot", "s · v"),
        ("x", "turn", "s · v"),
    ]
    assert [point["n"] for point in drawn[1]["series"][0]["points"]] == [1, 2]


def test_a_flat_curve_stays_beside_one_that_moves() -> None:
    flat = [row(turn, 1.0, run="flat", n=5) for turn in (1, 2)]
    assert list(charts(flat, TABLE, {})) == []
    [drawn] = charts([*flat, row(1, 0.1), row(2, 0.2)], TABLE, {})
    assert [one["label"] for one in drawn["series"]] == ["m flat", "m r1"]


def test_the_numbers_say_what_is_unscored() -> None:
    page = render(
        "curves",
        up="../",
        table="t",
        charts=list(charts([row(1, 0.1), row(2, None), row(3, 0.3)], TABLE, {})),
    )
    assert "<th>n</th><th>unscored</th>" in page
    assert "<td>0.300</td><td></td><td>3</td><td>3</td>" in page
    assert "x by turn (answers of the model)" in page


def test_models_have_colours_in_the_order_of_their_names_and_controls_are_grey() -> None:
    names = [f"openai:m{at:02}" for at in range(14)]
    found = model_colours([*reversed(names), "control:gold", "control:empty", names[3]])
    assert [found[name] for name in names] == [
        *(f"c{at}" for at in range(12)),
        "c0 further",
        "c1 further",
    ]
    assert (found["control:gold"], found["control:empty"]) == ("control", "control further")
    assert model_colours(names[:2]) == {names[0]: "c0", names[1]: "c1"}


def test_a_model_keeps_its_colour_where_another_has_no_value() -> None:
    colours = {"a": "c0", "b": "c1"}
    both = [row(turn, 0.1 * turn, run=name, model=name) for turn in (1, 2) for name in "ab"]
    alone = [one | {"x": None} if one["model"] == "a" else one for one in both]
    [with_a], [without_a] = (list(charts(rows, TABLE, colours)) for rows in (both, alone))
    assert [one["colour"] for one in with_a["series"]] == ["c0", "c1"]
    assert [one["colour"] for one in without_a["series"]] == ["c1"]
    [twice] = charts(
        [row(turn, 0.1 * turn, run=name) for turn in (1, 2) for name in "pq"], TABLE, {"m": "c0"}
    )
    assert [(one["colour"], one["is_further"]) for one in twice["series"]] == [
        ("c0", False),
        ("c0", True),
    ]


def test_positions_have_the_names_of_their_strategies() -> None:
    assert place_names("codeif.static", "strategy_slot", "L1")[8] == "Functionality Extension"
    assert place_names("codeif.static", "strategy_slot", "L2")[8] == "Context Usage Verification"
    assert place_names("nobody.knows", "strategy_slot", "L1") == {}
    rows = [
        row(turn, 0.1 * turn, "strategy_slot", setting="codeif.static", level="L1")
        for turn in (2, 3)
    ]
    [drawn] = charts(rows, TABLE, {})
    assert [" ".join(one["lines"]) for one in drawn["places"]] == [
        "Input-Output Conditions",
        "Exception Handling",
    ]
    assert (drawn["axis_title"], drawn["is_line"]) == ("instruction strategy", False)
    assert drawn["height"] > drawn["bottom"] + 48


def test_each_measure_of_the_bundled_marts_is_a_known_metric() -> None:
    for name in BENCHMARKS.names():
        benchmark = BENCHMARKS.load(name)
        for mart in (mart for mart in benchmark.results.marts if isinstance(mart, WideTable)):
            found = curve_table(mart.name, dict.fromkeys(mart.columns, ""))
            for measure in found.measures if found else ():
                assert (
                    METRICS.load(metric_of(f"{name}.any", measure)).name in benchmark.all_metrics
                ), (mart.name, measure)


def test_a_history_of_several_models_draws_each_in_its_colour() -> None:
    shared = {
        "family": "f",
        "setting": "s",
        "dataset_version": "v",
        "metric": "x",
        "ci_low": None,
        "ci_high": None,
        "event": None,
    }
    points = [
        shared | {"model": m, "position": at, "mean": 0.1 * at, "n": 3, "n_unscored": 0}
        for at, m in enumerate("ab")
    ]
    drawn = history_chart(points, {"a": "c0", "b": "c1"})
    assert drawn is not None
    [series] = drawn["series"]
    assert series["colour"] == "mixed"
    assert [point["colour"] for point in series["points"]] == ["c0", "c1"]
