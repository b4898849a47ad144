"""Verdicts to scores: values where they are settled, a reason where not, carried forward where
nothing more was asked.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.episode import Score, StopReason
from tasks.benchmarks.contract import Played
from tasks.benchmarks.convcode.scoring import IMPLICATIONS, METRICS, due, score
from tasks.benchmarks.convcode.stage import test_runs as runs_of
from tests.tasks.benchmarks.convcode.played import by_metric, live, problem, request, static

FULL, EXPERT, NOVICE = "live[f_c,f_e*]", "live[f_c,f_e,f_v*]", "live[f_c,f_e,f_v]"
REPLAYED = "static[f_c,f_e,f_v]"
INFRA, NO_ANSWER = "infra", "no_answer"


def turns_of(
    marks: str, stop: StopReason = StopReason.FINISHED, n: int = 4, setting: str = FULL
) -> list[float | str | None]:
    """Pass@1 of the paper's turns 0..n."""
    found = by_metric(score(request(setting, live(marks, stop), n)), "pass_at_1")
    assert sorted(found) == list(range(1, n + 2))
    return [found[turn] for turn in sorted(found)]


def whole(
    episodes: tuple[Played, ...], setting: str = FULL, n: int = 4
) -> tuple[float | str | None, ...]:
    """MRR, recall and upstream's MRR."""
    rows = score(request(setting, episodes, n))
    return tuple(by_metric(rows, metric)[0] for metric in ("mrr", "recall", "mrr_upstream"))


def test_a_solved_task_is_carried_forward_to_the_last_turn() -> None:
    assert turns_of("--+") == [0, 0, 1, 1, 1]
    assert whole(live("--+")) == (pytest.approx(1 / 3), 1, pytest.approx(1 / 3))


def test_a_task_solved_at_once_is_solved_at_every_turn() -> None:
    assert turns_of("+", n=10) == [1] * 11
    assert whole(live("+")) == (1, 1, 1)


def test_a_code_on_which_nobody_had_more_to_say_is_carried_forward_unsolved() -> None:
    assert turns_of("--") == [0, 0, 0, 0, 0]
    assert whole(live("--")) == (0, 0, 0)


def test_a_time_limit_is_a_failure() -> None:
    assert turns_of("tt--t") == [0] * 5


def test_without_feedback_there_is_turn_0_alone() -> None:
    rows = score(request("live[none]", live("+")))
    assert by_metric(rows, "pass_at_1") == {1: 1}
    assert whole(live("-"), "live[none]") == (0, 0, 0)


def test_turns_after_a_failing_subject_have_no_answer_and_are_no_failures() -> None:
    assert turns_of("--e", StopReason.SUBJECT_ERROR) == [0, 0, NO_ANSWER, NO_ANSWER, NO_ANSWER]
    assert whole(live("--e", StopReason.SUBJECT_ERROR)) == (NO_ANSWER, NO_ANSWER, NO_ANSWER)


def test_a_dialogue_that_a_fault_stopped_is_infra_from_there_on() -> None:
    assert turns_of("--", StopReason.INFRA) == [0, 0, INFRA, INFRA, INFRA]
    assert turns_of("", StopReason.INFRA) == [INFRA] * 5


def test_an_answer_that_nobody_ran_tests_on_is_our_fault() -> None:
    assert turns_of("-?--") == [0, INFRA, 0, 0, 0]
    assert turns_of("-i+") == [0, INFRA, 1, 1, 1]


def test_a_value_that_the_missing_turns_cannot_change_stands() -> None:
    """Solved at turn 0, 1 or (nobody knows) 1 or 2: the rank is open only where an earlier turn is
    not known.
    """
    assert whole(live("-i+")) == (INFRA, 1, INFRA)
    assert whole(live("-+i")) == (1 / 2, 1, 1 / 2)
    assert whole(live("-i-")) == (INFRA, INFRA, INFRA)
    rows = score(request(FULL, live("+i")))
    assert by_metric(rows, "pass_at_1")[2] == INFRA
    assert by_metric(rows, "pass_at_1_upstream")[2] == 1


def test_upstream_s_turn_0_of_a_replay_is_the_reference_s() -> None:
    """The scripts give no credit for the target's own turn 0, and credit all turns after the
    reference's.
    """
    for metric in ("pass_at_1", "pass_at_1_upstream"):
        rows = score(request(REPLAYED, static("+-+-", 3)))
        assert list(by_metric(rows, metric).values()) == [1, 0, 1, 0]
        rows = score(request(REPLAYED, static("-   ", 3, solved_at=0)))
        assert list(by_metric(rows, metric).values()) == [0, 1, 1, 1]


def test_credit_through_the_reference_is_given_at_the_turn_after_it_passed() -> None:
    """The reference passed at turn 1, so turns 2 and 3 are credited: rank 3 by the paper's formula,
    rank 2 by the scripts.
    """
    rows = score(request(REPLAYED, static("--  ", 3, solved_at=1)))
    assert by_metric(rows, "pass_at_1") == {1: 0, 2: 0, 3: 1, 4: 1}
    assert whole(static("--  ", 3, solved_at=1), REPLAYED) == (pytest.approx(1 / 3), 1, 1 / 2)


def test_the_target_s_own_pass_counts_before_the_credit() -> None:
    assert whole(static("+   ", 3, solved_at=0), REPLAYED) == (1, 1, 1)
    assert whole(static("-   ", 3, solved_at=0), REPLAYED) == (1 / 2, 1, 1)
    assert whole(static("-+  ", 3, solved_at=1), REPLAYED) == (1 / 2, 1, 1 / 2)


def test_a_turn_at_which_nothing_was_said_about_the_reference_s_code_fails_with_it() -> None:
    rows = score(request(REPLAYED, static("- - ", 3)))
    assert list(by_metric(rows, "pass_at_1").values()) == [0, 0, 0, 0]
    assert whole(static("- + ", 3), REPLAYED) == (pytest.approx(1 / 3), 1, pytest.approx(1 / 3))


def test_turns_that_are_not_asked_hang_on_the_episode_of_turn_0() -> None:
    first, second = static("-- ", 2, solved_at=1)
    rows = score(request(REPLAYED, (first, second)))
    assert {row.turn for row in rows if row.episode_id == first.episode.episode_id} == {0, 1, 3}
    assert {row.turn for row in rows if row.episode_id == second.episode.episode_id} == {2}


def test_an_asked_turn_without_an_episode_is_infra_and_not_a_failure() -> None:
    episodes = static("---", 2, absent=[1])
    rows = score(request(REPLAYED, episodes))
    assert by_metric(rows, "pass_at_1") == {1: 0, 3: 0}
    assert whole(episodes, REPLAYED) == (INFRA, INFRA, INFRA)
    assert whole(static("-+ ", 2, solved_at=1, absent=[1]), REPLAYED) == (INFRA, 1, 1 / 2)


def test_without_turn_0_nothing_is_said_of_the_whole_task() -> None:
    rows = score(request(REPLAYED, static("--+", 2, absent=[0])))
    assert {row.turn for row in rows} == {2, 3}
    assert by_metric(rows, "pass_at_1_upstream") == {2: 0, 3: 1}


def test_leakage_is_rated_for_each_feedback_that_an_expert_gave() -> None:
    episodes = live(
        "--+",
        verbal=("Do as the ground truth code does.", "Write x = 2 instead."),
        codes=("x = 0", "x = 1", "x = 2"),
    )
    rows = score(request(EXPERT, episodes))
    assert by_metric(rows, "mentions_reference") == {2: 1, 3: 0}
    assert by_metric(rows, "contains_refined_code") == {2: 0, 3: 1}
    assert not {row.metric for row in score(request(NOVICE, episodes))} & {
        "mentions_reference",
        "contains_refined_code",
    }


def test_feedback_that_was_given_but_not_answered_holds_nobody_knows_what() -> None:
    episodes = live("-e", StopReason.SUBJECT_ERROR, verbal=("Use a set.",))
    rows = score(request(EXPERT, episodes))
    assert by_metric(rows, "mentions_reference") == {2: 0}
    assert by_metric(rows, "contains_refined_code") == {2: NO_ANSWER}


def test_a_refused_answer_to_an_expert_is_no_fault() -> None:
    rows = score(request(EXPERT, live("-e", StopReason.REFUSED, verbal=("Use a set.",))))
    assert by_metric(rows, "contains_refined_code") == {2: "refused"}
    assert not any(row.unscored_reason and row.unscored_reason.is_fault for row in rows)


def test_each_round_is_run_with_the_whole_suite() -> None:
    [one] = live("--e", StopReason.SUBJECT_ERROR)
    runs = runs_of(problem(), one.dialog, one.episode, {})
    assert [(run.turn, run.code, run.kind) for run in runs] == [
        (1, "code 1\n", "unittest"),
        (2, "code 2\n", "unittest"),
        (3, None, "unittest"),
    ]
    assert {run.tests for run in runs} == {problem().instructions[0].suite.tests}


def values(rows: tuple[Score, ...]) -> dict[tuple[str, int, str], float | None]:
    return {(row.episode_id, row.turn, row.metric): row.value for row in rows}


LIVE_TASKS = st.builds(
    live,
    st.text("+-ti?", max_size=5).map(lambda marks: marks or "-"),
    st.sampled_from([StopReason.FINISHED, StopReason.INFRA]),
)


@st.composite
def static_tasks(draw: st.DrawFn) -> tuple[Played, ...]:
    """Turns that are asked, or at which nothing was said; none is asked after the reference has
    solved the task.
    """
    solved_at = draw(st.none() | st.integers(0, 5))
    n_open = 5 if solved_at is None else solved_at
    marks = draw(st.sampled_from("+-i")) + draw(st.text("+-i ", min_size=n_open, max_size=n_open))
    return static(marks.ljust(6), 5, solved_at)


@pytest.mark.parametrize(("setting", "tasks"), [(FULL, LIVE_TASKS), (REPLAYED, static_tasks())])
@given(st.data())
def test_what_the_contract_promises_of_scores_holds(
    setting: str, tasks: st.SearchStrategy[tuple[Played, ...]], data: st.DataObject
) -> None:
    asked = request(setting, data.draw(tasks), 5)
    found = values(score(asked))
    wanted = {
        (p.episode.episode_id, *key)
        for p in asked.played
        for key in due(setting, asked.options, p.dialog).scores
    }
    assert set(found) == wanted
    assert {metric for _, _, metric in found} <= set(METRICS)
    for metric, value, implied, implied_value in IMPLICATIONS:
        for (episode, turn, name), said in found.items():
            if name == metric and said == value:
                assert found[episode, turn, implied] == implied_value
