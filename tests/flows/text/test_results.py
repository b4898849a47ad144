"""Tables on the terminal show what is in them, letter for letter, and result tables fit it.

A mean never stands without n, its interval and what is unscored.
"""

from typing import Any

import pytest

from flows.text.records import print_rows
from flows.text.result_table import (
    distinct_names,
    print_table,
    result_markdown_table,
    result_tables,
)
from tasks.benchmarks.registry import BENCHMARKS


def test_brackets_in_names_are_shown_and_not_taken_for_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(
        "Results · pairs.live[f_c,f_e*]", ("setting[x]", "n"), [("live[bold]" + "." * 40, 1)]
    )
    shown = capsys.readouterr().out
    assert "pairs.live[f_c,f_e*]" in shown
    assert "setting[x]" in shown
    assert "live[bold]" in shown


def record(setting: str, metric: str, mean: float | None, **changes: Any) -> dict[str, Any]:
    """A row of the query `result_table`."""
    fields = {
        "benchmark": setting.partition(".")[0],
        "setting": setting,
        "model": "m",
        "metric": metric,
        "mean": mean,
    }
    fields |= {"ci_low": 0.25, "ci_high": 0.75, "n": 4, "n_unscored": 0, "n_not_applicable": 0}
    fields |= {"run_id": setting + changes.get("model", "")}
    return (
        fields
        | {"dataset_version": "sample", "sandbox": "zygote", "isolated": True, "task_share": None}
        | changes
    )


NONE = {"ci_low": None, "ci_high": None, "n": 0}
CODEIF = BENCHMARKS.load("codeif").scores.metrics


def printed(records: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    for table in result_tables(records):
        print_table(table)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_run_is_a_row_and_a_metric_a_column_with_interval_n_and_what_is_unscored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = [record("codeif.static", metric, 0.5) for metric in CODEIF]
    records += [
        record("codeif.static", metric, None, model="control:empty", **NONE, n_unscored=38)
        for metric in CODEIF[:2]
    ]
    assert printed(records, capsys) == [
        "Results · benchmark codeif.static · data sample · sandbox zygote",
        "",
        " model          IA           CA           CA share     IFR",
        " ──────────────────────────────────────────────────────────────────",
        " m              0.500  n=4   0.500  n=4   0.500  n=4   0.500  n=4",
        "                0.250…0.750  0.250…0.750  0.250…0.750  0.250…0.750",
        " control:empty  –      n=0   –      n=0   –            –",
        "                38 unscored  38 unscored",
        "",
        " Mean and n, the 95% interval below; then the number of values that faults left",
        " unscored.",
        " IA = instruction_accuracy · CA = conversation_accuracy_strict ·",
        " CA share = conversation_accuracy_fraction · IFR = instruction_forgetting_ratio",
        "",
    ]


def test_what_has_no_value_by_its_nature_is_said_of(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(
        [record("codeif.static", "instruction_accuracy", 0.5, n_not_applicable=4)], capsys
    )
    said = " ".join("\n".join(lines).split())
    assert "n excludes values that do not apply: see unscored_reason in the table scores." in said


def test_what_differs_between_rows_has_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        record("codeif.static", "instruction_accuracy", 0.5, model=model, isolated=model == "a")
        for model in "ab"
    ]
    title, _, head, _, _, _, of_b, *_ = printed(records, capsys)
    assert title == "Results · benchmark codeif.static · data sample"
    assert head.split() == ["model", "sandbox", "IA"]
    assert of_b.startswith(" b      zygote (NOT ISOLATED)  0.500  n=4")
    twins = [
        record("codeif.static", "instruction_accuracy", 0.5, run_id=run)
        for run in ("1" * 32, "2" * 32)
    ]
    _, _, head, _, first, *_ = printed(twins, capsys)
    assert (head.split(), first.split()[1]) == (["model", "run", "IA"], "1" * 12)


LIVE = ("convcode.live[f_c]", "convcode.live[f_c,f_e]", "convcode.live[f_c,f_e*,f_v*]")


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As wide as COLUMNS says.

    Of many settings the first metrics stand there, of few settings all.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    names = [
        f"openai:laboratory/Some-Coder-7B-Instruct-checkpoint-{step:06}-learning-rate-3e-5-final"
        for step in (1000, 2000)
    ]
    metrics = BENCHMARKS.load("convcode").scores.metrics
    many = [record(s, metric, 0.5, model="embedded:smollm2") for s in LIVE for metric in metrics]
    few = [
        record(LIVE[0], metric, 0.5, model=name, n=11_400) for name in names for metric in metrics
    ]
    for records in (
        many,
        few,
        [record("codeif.static", metric, 0.5, model=name) for name in names for metric in CODEIF],
    ):
        lines = printed(records, capsys)
        assert max(map(len, lines)) <= width
        shown = [line.split()[0] for line in lines if "n=" in line]
        n_parts = sum("───" in line for line in lines)
        assert len(shown) == n_parts * len({r["run_id"] for r in records})
        assert len(set(shown)) == len({r["run_id"] for r in records})
        assert n_parts == 1 or records is few
        said = " ".join(lines)
        assert all(record["metric"] in said for record in records)


def test_names_are_cut_where_they_are_alike() -> None:
    assert distinct_names(["openai:gpt", "control:gold"], 16) == ["openai:gpt", "control:gold"]
    assert distinct_names(["embedded:smollm2"], 9) == ["embe…llm2"]
    ends = [f"openai:some-model-{end}" for end in ("small", "large")]
    assert distinct_names(ends, 12) == ["openai…small", "openai…large"]
    middles = [f"openai:some-model-of-{middle}-billion-parameters-it" for middle in (3, 7)]
    cut = distinct_names(middles, 16)
    assert len(set(cut)) == 2
    assert max(map(len, cut)) <= 16
    assert [name[1] for name in cut] == ["3", "7"]


def test_markdown_has_all_metrics_by_name_and_one_row_a_run() -> None:
    records = [record(setting, metric, 0.5) for setting in LIVE for metric in ("mrr", "recall")]
    records += [record(LIVE[0], "pass_at_1_upstream", None, **NONE, n_unscored=4)]
    (table,) = result_tables(records)
    head, _, first, second, _ = result_markdown_table(table).splitlines()
    assert head == "| setting | data | model | sandbox | mrr | recall | pass_at_1_upstream |"
    assert first.endswith(
        "| 0.500 (0.250…0.750), n=4, 0 unscored | 0.500 (0.250…0.750), n=4, 0 unscored | –, "
        "n=0, 4 unscored |"
    )
    assert second.endswith("| – |")
