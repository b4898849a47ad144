"""Tables on the terminal show what is in them, letter for letter."""

from typing import Any

import pytest

from flows.text.results import print_rows
from flows.text.settings import has_many_settings, settings_table


def test_brackets_in_names_are_shown_and_not_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("Results · pairs.live[f_c,f_e*]", ("setting[x]", "n"), [("live[bold]" + "." * 40, 1)])
    shown = capsys.readouterr().out
    assert "pairs.live[f_c,f_e*]" in shown
    assert "setting[x]" in shown
    assert "live[bold]" in shown


def record(setting: str, metric: str, mean: float | None, **changes: Any) -> dict[str, Any]:
    """A row of the query `result_table`."""
    fields = {"benchmark": "convcode", "setting": f"convcode.{setting}", "model": "m", "metric": metric, "mean": mean}
    return fields | {"ci_low": 0.25, "ci_high": 0.75, "n": 4, "n_unscored": 0, "run_id": setting} | changes


def test_many_settings_of_one_benchmark_stand_side_by_side_each_mean_with_n_interval_and_what_is_missing() -> None:
    records = [record(s, "mrr", 0.5) for s in ("live[none]", "live[f_c]", "live[f_c,f_e]")]
    records += [
        record("live[none]", "recall", None, ci_low=None, ci_high=None, n=0, n_unscored=4),
        record("live[f_c]", "recall", 1.0),
    ]
    assert has_many_settings(records)
    assert not has_many_settings(records[:2])
    columns, rows = settings_table(records)
    assert columns == ("setting", "model", "mrr", "recall", "pass_at_1")
    assert rows == [
        ("live[none]", "m", "0.500 (0.25–0.75) n=4", "– n=0, 4 unscored", "–"),
        ("live[f_c]", "m", "0.500 (0.25–0.75) n=4", "1.000 (0.25–0.75) n=4", "–"),
        ("live[f_c,f_e]", "m", "0.500 (0.25–0.75) n=4", "–", "–"),
    ]
