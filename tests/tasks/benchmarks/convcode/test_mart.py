"""The mart `convcode_settings` against hand-worked runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.episode import StopReason
from tasks.benchmarks.contract import Played
from tests.tasks.benchmarks.convcode.played import live, static
from tests.tasks.benchmarks.convcode.small_lake import SIMULATOR, ConvCodeLake, model
from tests.warehouse.earlier_marts import differing_tables
from warehouse.connect import query
from warehouse.intervals import wilson

pytestmark = pytest.mark.slow

EXPERT, COMPILER, REPLAYED = "live[f_c,f_e*,f_v*]", "live[f_c]", "static[f_c,f_e*,f_v*]"
TURNS = {"turns": "3"}
LEAKY, PLAIN = "As in the reference solution, return x.", "Return x."


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An expert's live run of four tasks, a run without a simulator, and a static one."""
    lake = ConvCodeLake(tmp_path_factory.mktemp("convcode"))
    lake.price(SIMULATOR, 5.0, 15.0)
    lake.run(
        model("alpha"),
        EXPERT,
        (
            live("+", name="P1"),
            live("--+", verbal=(LEAKY, PLAIN), name="P2"),
            live("----", verbal=(PLAIN, "Write code 3", PLAIN), name="P3"),
            live("-e", StopReason.SUBJECT_ERROR, verbal=(PLAIN,), name="P4"),
        ),
        TURNS,
        SIMULATOR,
    )
    lake.run(model("beta"), COMPILER, (live("-", name="P1"), live("-+", name="P2")), TURNS)
    lake.run(
        model("alpha"),
        REPLAYED,
        (static("--  ", 3, solved_at=1, name="P1"), static("+-+-", 3, name="P2")),
    )
    lake.publish()
    return lake.home


def rows(home: Path, columns: str, setting: str) -> list[tuple[Any, ...]]:
    sql = f"select {columns} from convcode_settings where setting = $setting order by turn"
    return query(home, sql, {"setting": f"convcode.{setting}"})[1]


def test_the_view_holds_what_its_earlier_sql_made(home: Path, tmp_path: Path) -> None:
    assert differing_tables(home, tmp_path) == {}


def test_pass_at_1_of_each_turn_stands_beside_its_denominator(home: Path) -> None:
    """P4 has no answer after turn 0: it is in n_unscored from there on, and in no mean."""
    assert rows(home, "turn, pass_at_1, pass_at_1_upstream, n, n_unscored", EXPERT) == [
        (0, 0.25, 0.25, 4, 0),
        (1, pytest.approx(1 / 3), pytest.approx(1 / 3), 3, 1),
        (2, pytest.approx(2 / 3), pytest.approx(2 / 3), 3, 1),
        (3, pytest.approx(2 / 3), pytest.approx(2 / 3), 3, 1),
    ]
    assert rows(home, "pass_at_1_low, pass_at_1_high", EXPERT)[2] == pytest.approx(wilson(2, 3))


def test_a_run_s_mrr_and_recall_stand_in_each_of_its_rows(home: Path) -> None:
    """Ranks 1, 3 and none; nobody knows P4's."""
    columns = "mrr, n_mrr, n_mrr_unscored, mrr_upstream, recall, n_recall, n_recall_unscored, turns"
    expected = (
        pytest.approx((1 + 1 / 3) / 3),
        3,
        1,
        pytest.approx((1 + 1 / 3) / 3),
        pytest.approx(2 / 3),
        3,
        1,
        3,
    )
    assert rows(home, columns, EXPERT) == [expected] * 4


def test_feedback_is_counted_at_the_turn_whose_code_it_led_to(home: Path) -> None:
    """P2 gets two remarks, P3 three, P4 one: 3, 2 and 1, each of 100 and 10 tokens at 5 and 15 USD
    a million.
    """
    columns = (
        "turn, n_verbal_feedback, feedback_calls, feedback_input_tokens, feedback_output_tokens, "
        "feedback_usd"
    )
    assert rows(home, columns, EXPERT) == [
        (0, 0, 0, 0, 0, 0.0),
        (1, 3, 3, 300, 30, pytest.approx(300 * 5e-6 + 30 * 15e-6)),
        (2, 2, 2, 200, 20, pytest.approx(200 * 5e-6 + 20 * 15e-6)),
        (3, 1, 1, 100, 10, pytest.approx(100 * 5e-6 + 10 * 15e-6)),
    ]
    in_all = (
        "n_feedback_in_all, n_verbal_feedback_in_all, feedback_calls_in_all, "
        "feedback_input_tokens_in_all,"
        " feedback_output_tokens_in_all, feedback_usd_in_all"
    )
    assert (
        rows(home, in_all, EXPERT)
        == [(6, 6, 6, 600, 60, pytest.approx(600 * 5e-6 + 60 * 15e-6))] * 4
    )


def test_leakage_is_a_share_of_the_feedback_that_was_given(home: Path) -> None:
    """One remark of six names the reference; one of the five that were answered holds the next
    code.
    """
    columns = (
        "mentions_reference, n_mentions_reference, contains_refined_code, n_contains_refined_code,"
        " n_contains_refined_code_unscored"
    )
    assert (
        rows(home, columns, EXPERT) == [(pytest.approx(1 / 6), 6, pytest.approx(1 / 5), 5, 1)] * 4
    )
    assert rows(home, columns, COMPILER) == [(None, 0, None, 0, 0)] * 4


def test_feedback_of_the_compiler_costs_nothing(home: Path) -> None:
    columns = (
        "turn, n_feedback, n_verbal_feedback, feedback_calls, feedback_usd, feedback_usd_in_all"
    )
    assert rows(home, columns, COMPILER) == [
        (0, 0, 0, 0, 0, 0),
        (1, 1, 0, 0, 0, 0),
        (2, 0, 0, 0, 0, 0),
        (3, 0, 0, 0, 0, 0),
    ]


def test_a_static_run_has_a_row_for_each_turn_of_the_logs(home: Path) -> None:
    """P1 is credited from turn 2 on; P2 passes at turns 0 and 2."""
    columns = (
        "turn, pass_at_1, pass_at_1_upstream, n, mrr, mrr_upstream, recall, feedback_usd_in_all"
    )
    mrr, upstream = pytest.approx((1 / 3 + 1) / 2), pytest.approx((1 / 2 + 1) / 2)
    assert rows(home, columns, REPLAYED) == [
        (0, 0.5, 0.5, 2, mrr, upstream, 1, 0),
        (1, 0, 0, 2, mrr, upstream, 1, 0),
        (2, 1, 1, 2, mrr, upstream, 1, 0),
        (3, 0.5, 0.5, 2, mrr, upstream, 1, 0),
    ]


def test_a_row_says_which_run_it_is_of(home: Path) -> None:
    columns = (
        "distinct model, part, feedback, dataset_version, options, reference_model, sandbox, "
        "isolated"
    )
    sql = f"select {columns} from convcode_settings order by all"
    assert query(home, sql)[1] == [
        (
            "openai:alpha",
            "live",
            "f_c,f_e*,f_v*",
            "sample",
            '[["turns","3"]]',
            None,
            "zygote",
            True,
        ),
        ("openai:alpha", "static", "f_c,f_e*,f_v*", "sample", "[]", "reference-7b", "zygote", True),
        ("openai:beta", "live", "f_c", "sample", '[["turns","3"]]', None, "zygote", True),
    ]


def test_an_unknown_price_or_count_of_tokens_is_null_and_not_zero(tmp_path: Path) -> None:
    lake = ConvCodeLake(tmp_path)
    lake.run(model("alpha"), EXPERT, (live("-+", verbal=(PLAIN,), name="P1"),), TURNS, SIMULATOR)
    lake.publish()
    columns = (
        "feedback_input_tokens, feedback_usd, feedback_input_tokens_in_all, feedback_usd_in_all"
    )
    assert rows(lake.home, columns, EXPERT) == [
        (0, 0, 100, None),
        (100, None, 100, None),
        (0, 0, 100, None),
        (0, 0, 100, None),
    ]
    lake.price(SIMULATOR, 5.0, 15.0)
    lake.run(
        model("uncounted"),
        EXPERT,
        (uncounted(live("-+", verbal=(PLAIN,), name="P1")),),
        TURNS,
        SIMULATOR,
    )
    lake.publish()
    of_uncounted = (
        f"select turn, {columns} from convcode_settings where model = 'openai:uncounted' and "
        "turn < 2 order by turn"
    )
    assert query(lake.home, of_uncounted)[1] == [(0, 0, 0, None, None), (1, None, None, None, None)]


def uncounted(episodes: tuple[Played, ...]) -> tuple[Played, ...]:
    """As if the endpoint had not said how many tokens it took."""
    [one] = episodes
    steps = tuple(
        step.model_copy(update={"input_tokens": None, "output_tokens": None})
        for step in one.episode.steps
    )
    return (replace(one, episode=one.episode.model_copy(update={"steps": steps})),)
