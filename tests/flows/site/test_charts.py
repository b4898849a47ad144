"""Curves: each measure with its own n, headed by its axis; what a table merely repeats is none."""

from typing import Any

import pytest

from flows.site.charts import charts
from flows.site.pages import render
from tests.own_files import ROOT
from warehouse.curves import CurveTable, counts_of, curve_table

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
    assert counts_of(["n", "n_a"], ["a", "b", "c"]) == {"a": ("n_a", None), "b": (None, None), "c": (None, None)}
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
    for mart in sorted(ROOT.glob("tasks/benchmarks/*/marts/*.sql")):
        lines = (line.strip(" ,") for line in mart.read_text(encoding="utf-8").splitlines())
        found = curve_table(mart.stem, {**RUN, **{line.split(" as ")[-1].split(".")[-1]: "" for line in lines}})
        if found is not None:
            drawn[mart.stem] = found
    assert drawn.keys() >= {"codeif_turns", "convcode_settings", "talk2code_levels"}
    for name, found in drawn.items():
        assert all(n is not None and unscored is not None for n, unscored in found.counts.values()), (name, found.counts)


TABLE = CurveTable("t", "turn", ("axis",), ("x", "whole"), {"x": ("n", "n_unscored"), "whole": ("n_whole", None)})


def row(turn: int, x: float | None, axis: str = "turn", run: str = "r1", **more: Any) -> dict[str, Any]:
    shared = {"run_id": run, "model": "m", "label": f"m {run}", "setting": "s", "dataset_version": "v"}
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
    rows = [row(1, 0.1), row(2, 0.2), row(1, 0.3, "strategy_slot"), row(2, 0.3, "strategy_slot"), row(1, 1.0, "lonely")]
    drawn = list(charts(rows, TABLE))
    assert [(one["measure"], one["axis"], one["title"]) for one in drawn] == [
        ("x", "strategy_slot", "s · v"),
        ("x", "turn", "s · v"),
    ]
    assert [point["n"] for point in drawn[1]["series"][0]["points"]] == [1, 2]


def test_a_flat_curve_stays_beside_one_that_moves() -> None:
    flat = [row(turn, 1.0, run="flat", n=5) for turn in (1, 2)]
    assert list(charts(flat, TABLE)) == []
    [drawn] = charts([*flat, row(1, 0.1), row(2, 0.2)], TABLE)
    assert [one["label"] for one in drawn["series"]] == ["m flat", "m r1"]


def test_the_numbers_say_what_is_unscored() -> None:
    page = render("curves", up="../", table="t", charts=list(charts([row(1, 0.1), row(2, None), row(3, 0.3)], TABLE)))
    assert "<th>n</th><th>unscored</th>" in page
    assert "<td>0.300</td><td></td><td>3</td><td>3</td>" in page
    assert "x by turn" in page
