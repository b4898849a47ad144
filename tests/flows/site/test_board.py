"""The first page: who is ahead and how sure that is, and a matrix a setting; colours are the same
on all pages.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from flows.site.matrix import matrices, standing
from flows.site.pages import render
from tests.flows.site.test_site import pages, site
from tests.warehouse.small_lake import SmallLake
from warehouse.site_rows import SiteRows

__all__ = ["site"]


def row(
    model: str, mean: float | None, metric: str = "instruction_accuracy", **more: Any
) -> dict[str, Any]:
    shared = {
        "run_id": model.ljust(32, "x"),
        "model": model,
        "label": model,
        "setting": "codeif.static",
        "benchmark": "codeif",
    }
    place = {
        "dataset_version": "v",
        "task_share": None,
        "sandbox": "z",
        "isolated": True,
        "night_id": "n",
        "forged_share": None,
    }
    bounds = (
        {"ci_low": None, "ci_high": None}
        if mean is None
        else {"ci_low": max(0, mean - 0.1), "ci_high": mean + 0.1}
    )
    counts = {"n": 9, "n_unscored": 0, "n_not_applicable": 0, "released_because": None}
    return shared | place | bounds | counts | {"metric": metric, "mean": mean} | more


def matrix_of(*rows: dict[str, Any]) -> dict[str, Any]:
    [found] = matrices(rows, {one["run_id"] for one in rows}, {})
    return found


def compared(
    first: str, second: str, difference: float, q: float, metric: str = "instruction_accuracy"
) -> dict[Any, Any]:
    bounds = {"ci_low": difference - 0.1, "ci_high": difference + 0.1, "mde": 0.2, "n_problems": 9}
    pair = {
        "metric": metric,
        "difference": difference,
        "q_value": q,
        "mean": 0.5,
        "other_mean": 0.5 - difference,
        **bounds,
    }
    return {(second.ljust(32, "x"), first.ljust(32, "x")): [pair]}


def test_models_stand_from_best_to_worst_above_the_controls_and_the_best_is_marked() -> None:
    rows = [
        row("a", 0.2),
        row("b", 0.7),
        row("c", None),
        row("control:gold", 1.0),
        row("control:empty", 0.0),
    ]
    ratio = "instruction_forgetting_ratio"  # lower is better
    rows += [row("a", 0.1, ratio), row("b", 0.3, ratio), row("control:gold", 0.0, ratio)]
    found = matrix_of(*rows)
    assert found["main"] == "instruction_accuracy"
    assert [line["run"]["model"] for line in found["lines"]] == [
        "b",
        "a",
        "c",
        "control:gold",
        "control:empty",
    ]
    best = {
        (line["run"]["model"], cell["metric"])
        for line in found["lines"]
        for cell in line["cells"]
        if cell["is_best"]
    }
    assert best == {("b", "instruction accuracy (IA)"), ("a", "instruction forgetting ratio (IFR)")}
    assert not any(
        cell["is_best"]
        for line in matrix_of(row("a", 0.2), row("control:gold", 1.0))["lines"]
        for cell in line["cells"]
    )


def test_parts_of_a_dataset_and_versions_have_matrices_of_their_own() -> None:
    rows = [
        row("a", 0.2),
        row("a", 0.3, task_share=0.5, run_id="part"),
        row("b", 0.3, dataset_version="w"),
    ]
    found = matrices(rows, {one["run_id"] for one in rows}, {})
    assert [(len(one["lines"]), one["first"]["dataset_version"]) for one in found] == [
        (1, "v"),
        (1, "v"),
        (1, "w"),
    ]
    assert len({one["anchor"] for one in found}) == 3
    assert [one["lines"][0]["run"]["run_id"] for one in matrices(rows, {"part"}, {})] == ["part"]


@pytest.mark.parametrize(
    ("difference", "q", "state"),
    [(0.2, 0.01, "decided"), (0.2, 0.2, "undecided"), (-0.2, 0.01, "undecided")],
)
def test_a_setting_is_decided_by_the_paired_comparison_of_its_two_best(
    difference: float, q: float, state: str
) -> None:
    found = matrix_of(row("a", 0.2), row("b", 0.7), row("c", 0.5), row("control:gold", 1.0))
    said = standing(found, compared("b", "c", difference, q))
    assert (said["leader"]["model"], said["second"]["model"], said["state"]) == ("b", "c", state)
    assert standing(found, {})["state"] == "apart"


def test_a_second_run_of_the_leader_is_no_rival_and_controls_are_none() -> None:
    twice = matrix_of(
        row("a", 0.9), row("a", 0.8, run_id="other"), row("b", 0.1), row("control:gold", 1.0)
    )
    assert standing(twice, {})["second"]["model"] == "b"
    assert standing(matrix_of(row("a", 0.9), row("control:gold", 1.0)), {})["state"] == "single"
    assert standing(matrix_of(row("a", None), row("control:gold", 1.0)), {})["state"] == "controls"


def test_each_standing_is_one_sentence() -> None:
    found = matrix_of(row("a", 0.7), row("b", 0.5))
    one = standing(found, compared("a", "b", 0.2, 0.01))
    others = [
        standing(found, compared("a", "b", 0.2, 0.2)),
        standing(found, {}),
        standing(matrix_of(row("a", 0.7)), {}),
    ]
    empty = {
        "curves": [],
        "compared": [],
        "nights": [],
        "histories": [],
        "runs": [],
        "matrices": [],
        "cell": (9, 9, 1),
    }
    page = render("index", up="", standings=[one, *others], **empty)
    said = [
        " ".join(re.sub(r"<[^>]*>", "", line).split())
        for line in re.findall(r"<li>(.*?)</li>", page, re.DOTALL)
    ]
    assert said == [
        "codeif.static v: a is ahead of b on instruction accuracy (IA): 0.500 to 0.300, "
        "difference +0.200"
        " (95% interval +0.100…+0.300, q 0.010, 9 shared problems).",
        "codeif.static v: not decided between a and b on instruction accuracy (IA): 0.500 to "
        "0.300, difference +0.200"
        " (95% interval +0.100…+0.300, q 0.200, 9 shared problems); a comparison of this size"
        " finds a true difference of 0.200 in 80% of cases.",
        "codeif.static v: not decided: a has instruction accuracy (IA) 0.700 (95% interval "
        "0.600…0.800), b 0.500"
        " (95% interval 0.400…0.600), but the two runs differ in more than the model and "
        "cannot be paired.",
        (
            "codeif.static v: only one model, a: instruction accuracy (IA) 0.700 (95% interval "
            "0.600…0.800), n 9."
        ),
    ]


@pytest.mark.slow
def test_the_leaderboard_has_a_row_for_each_run_with_n_and_what_is_unscored(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    boards = re.findall(r'<section class="board".*?</section>', index, re.DOTALL)
    [codeif] = [board for board in boards if "<h3>codeif.static " in board]
    alpha = re.findall(r'<tr data-run="(\w+)" data-label="openai:alpha', codeif)
    assert len(set(alpha)) == 2  # two runs
    hovers = re.findall(
        r'data-is="([^"]*)" title="instruction accuracy \(IA\) [^"]*, n (\d+), unscored (\d+)',
        codeif,
    )
    details = re.findall(
        r"<tr><td>instruction_accuracy</td><td>([\d.]+)</td><td>[^<]*</td><td>(\d+)</td><td>(\d+)</td>",
        codeif,
    )
    assert [(f"{float(mean):.3f}", *counts) for mean, *counts in hovers] == details
    assert any(unscored in "12" for *_, unscored in details)
    means = [float(mean) for mean, *_ in hovers]
    assert means == sorted(means, reverse=True)
    assert len(means) > 2
    assert codeif.count("★") >= 1
    assert "gamma" not in index.partition("<h2>Nights")[0]  # withheld


@pytest.mark.slow
def test_the_first_page_says_who_is_ahead_with_difference_interval_and_q(site: Path) -> None:
    lake = SmallLake(site.parent / "home")
    index = (site / "index.html").read_text(encoding="utf-8")
    [line] = [
        text
        for text in re.findall(r"<li>.*?</li>", index, re.DOTALL)
        if ">codeif.static</a>" in text
    ]
    with SiteRows(lake.home) as rows:
        best = max(
            (r for r in rows.leaderboard() if r["metric"] == "instruction_accuracy"),
            key=lambda r: r["mean"],
        )
        others = {
            r["run_id"]
            for r in rows.leaderboard()
            if r["model"] != best["model"] and r["benchmark"] == "codeif"
        }
        [second] = [
            run for run in others if f"compared/{run[:12]}-{best['run_id'][:12]}.html" in line
        ]
        [row] = [
            r
            for r in rows.compared(second, best["run_id"], {})
            if r["metric"] == "instruction_accuracy"
        ]
    assert f"{row['difference']:+.3f} (" in line
    assert f"q {row['q_value']:.3f}, {row['n_problems']} shared problem" in line
    assert ("not decided" in line) is (row["q_value"] > 0.05)
    page = (site / "compared" / f"{second[:12]}-{best['run_id'][:12]}.html").read_text(
        encoding="utf-8"
    )
    assert "<td>instruction_accuracy</td>" in page


@pytest.mark.slow
def test_a_model_has_one_colour_on_all_pages_and_no_other_model_has_it(site: Path) -> None:
    seen: dict[str, set[str]] = {}
    for path, page in pages(site):
        if path.parent.name == "history":
            continue  # the points of a family may be of several models
        for tag, attrs in page.tags:
            if tag == "g" and "data-model" in attrs:
                seen.setdefault(str(attrs["data-model"]), set()).add(
                    str(attrs["class"]).removesuffix(" further")
                )
        if path.name == "index.html":
            text = path.read_text(encoding="utf-8")
            for label, colour in re.findall(
                r'data-label="([^"(]*?)(?: \(\w{12}\))?">\s*<td[^>]*><span class="key (\w+)', text
            ):
                seen.setdefault(label, set()).add(colour)
    assert len(seen) >= 2
    colours = [colour for found in seen.values() for colour in found]
    assert len(colours) == len(set(colours)) == len(seen), seen
