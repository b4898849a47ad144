"""Tables in a pipe are 80 wide, or as wide as their words need: texts are folded, nothing of them is
lost, and numbers and names stay whole.
"""

from itertools import pairwise
from typing import Any

import pytest

from flows.text.comparison import print_agreement
from flows.text.listings import printed_listing, reason_lines
from flows.text.records import GAP, WIDTH, fitted_widths, print_rows

LONG = "openai:laboratory/Some-Coder-7B-Instruct-checkpoint-001000"


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def columns_of(shown: list[str], n: int) -> list[str]:
    """What stands in each column below the heads, without white space."""
    (rule,) = (at for at, line in enumerate(shown) if "───" in line)
    cuts = [
        at
        for at, sign in enumerate(shown[rule - 1])
        if at and sign != " " and shown[rule - 1][at - 2 : at] == "  "
    ]
    starts = [0, *[cut for cut in cuts if cut > 1], max(map(len, shown))]
    assert len(starts) == n + 1
    return [
        "".join("".join(line[a:b].split()) for line in shown[rule + 1 :])
        for a, b in pairwise(starts)
    ]


def test_a_wide_table_is_folded_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(
        "",
        ("benchmark", "model", "reason"),
        [("convcode.live[f_c,f_e*]", "openai:good", "the endpoint fell silent " * 5)],
    )
    assert max(map(len, lines(capsys))) <= WIDTH
    print_rows(
        "",
        ("benchmark", "model", "reason"),
        [("convcode.live[f_c,f_e*]", LONG, "the endpoint fell silent " * 5)],
    )
    shown = lines(capsys)
    assert max(map(len, shown)) <= len(LONG) + 2 * 24 + 3 * GAP + 1
    assert any(f"convcode.live[f_c,f_e*]  {LONG}  the" in line for line in shown)
    assert columns_of(shown, 3) == ["convcode.live[f_c,f_e*]", LONG, "theendpointfellsilent" * 5]


def test_a_table_that_a_query_makes_is_as_wide_as_its_content(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows("", ("model", "reason"), [(LONG, "the endpoint fell silent " * 5)], unfolded=True)
    assert any(
        LONG in line and ("the endpoint fell silent " * 5).strip() in line for line in lines(capsys)
    )


def test_numbers_and_short_names_stay_whole_and_heads_break_between_words() -> None:
    heads = ("benchmark", "model", "simulator calls", "input tokens")
    widths = fitted_widths(
        heads, [("b" * 70, "m" * 40, "12345678901", "7")], (False, False, True, True), 80
    )
    assert widths is not None
    assert sum(widths) + GAP * 4 == 80
    assert widths[2:] == [11, 6]
    assert fitted_widths(
        heads, [("b" * 32, "m" * 40, "1", "7")], (False, False, True, True), 80
    ) == [32, 25, 9, 6]
    assert fitted_widths(("n",), [("1" * 90,)], (True,), 80) is None


def test_heads_stand_in_one_line_where_there_is_room() -> None:
    assert fitted_widths(("input tokens", "n"), [("7", "1")], (True, True), 80) == [12, 1]


def test_a_run_is_listed_with_whole_names(capsys: pytest.CaptureFixture[str]) -> None:
    run: dict[str, Any] = {
        "run_id": "be438a8f999d69fd7d5ead03800b7b66",
        "setting": "convcode.live[f_c,f_e*,f_v*]",
        "dataset_version": "sample",
        "model": LONG,
        "status": "withheld",
        "n_episodes": 120,
        "n_owed": 0,
        "n_infra": 3,
        "n_unscored": 12,
        "finished_at": "2026-01-02T03:04:05.678+00:00",
        "withheld_reason": "too many infra faults",
        "released_because": "one problem only",
    }
    heads, rows = printed_listing(tuple(run), [tuple(run.values())])
    assert heads == ("run", "setting", "data", "model", "status", "episodes", "finished")
    assert rows[0][0] == "be438a8f999d"
    assert rows[0][4:] == ("released", "120, 3 infra, 12 unscored", "2026-01-02 03:04")
    (reason,) = reason_lines(tuple(run), [tuple(run.values())])
    assert reason == "be438a8f999d  released (one problem only), withheld: too many infra faults"
    print_rows("", heads, rows)
    shown = lines(capsys)
    assert any(f"convcode.live[f_c,f_e*,f_v*]  sample  {LONG}" in line for line in shown)
    assert any(line.startswith(" be438a8f999d ") for line in shown)


def test_names_can_be_searched_for_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    heads = ("run", "setting", "data", "model", "status", "episodes", "finished")
    row = ("be438a8f999d", "codeif.static", "sample", "openai:good", "finished", 120)
    print_rows("", heads, [(*row, "2026-01-02 03:04")])
    assert any("codeif.static  sample  openai:good  finished" in line for line in lines(capsys))


def test_a_kappa_stands_with_its_interval_or_says_why_there_is_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {"kappa": 0.4, "kappa_low": -1.0, "kappa_high": 1.0, "kappa_undefined_because": None}
    words = {"weighted_kappa": None, "weighted_kappa_low": None, "weighted_kappa_high": None}
    pair = {
        "rubric": "clear",
        "dimension": "clarity of the answer",
        "pair": "consensus_judge",
        "first": "consensus",
    }
    counts = {"second": LONG, "n": 1200, "n_missing": 0, "n_episodes": 300, "share_equal": 0.98765}
    print_agreement(
        [pair | counts | known | words | {"weighted_undefined_because": "the ratings are words"}]
    )
    shown = lines(capsys)
    assert any(LONG in line for line in shown)
    *_, kappa, weighted = columns_of(shown, 8)
    assert kappa == "0.40-1.00…1.00"
    assert weighted == "theratingsarewords"


def test_ordinary_words_stay_whole_where_they_fit(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["the interpretation of recommendations", "an internationalisation of configurations"]
    columns = ("name", "first", "second", "third")
    print_rows("", columns, [("n" * 20, *texts, f"{LONG} {'options=' * 9}")])
    shown = " ".join(lines(capsys)).split()
    assert {word for text in texts for word in text.split()} <= {*shown}


def test_a_terminal_too_narrow_for_a_table_has_a_block_for_each_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "50")
    heads = [f"number{at}" for at in range(9)]
    print_rows("", heads, [list(range(9))])
    assert lines(capsys)[1:] == [f"{head}  {at}" for at, head in enumerate(heads)]
