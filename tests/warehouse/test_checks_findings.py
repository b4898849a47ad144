"""What the suites find in tables that are odd, and right; and how a finding is told."""

from tests.warehouse.checked_tables import (
    PROBLEMS,
    Rows,
    corrupted,
    digest,
    episode_id,
    full_context,
    valid_tables,
    with_tools,
)
from tests.warehouse.test_checks import swap
from warehouse.checks import blocking_failures, check_table


def test_detail_names_place_and_fault():
    checks = check_table("episodes", corrupted("episodes", swap("steps", 0, 1)), full_context())
    check = next(c for c in checks if c.expectation == "user_before_assistant")
    assert f"episode_id={episode_id(PROBLEMS[0])}, problem_id=function/1" in check.detail
    assert "turn 1 has an answer before its question" in check.detail
    assert (check.unexpected_count, check.element_count) == (1, 2)


def test_steps_of_a_turn_are_right_in_their_place():
    assert (
        blocking_failures(
            check_table("episodes", corrupted("episodes", with_tools()), full_context())
        )
        == []
    )


def test_infra_attempts_of_an_episode_do_not_make_it_double():
    def add_infra(rows: Rows) -> None:
        rows.append(rows[0] | {"stop_reason": "infra", "error": "no answer", "steps": []})

    assert (
        blocking_failures(check_table("episodes", corrupted("episodes", add_infra), full_context()))
        == []
    )


def test_answers_that_a_dead_endpoint_never_gave_are_no_fault_of_the_sandbox():
    def never_answered(rows: Rows) -> None:
        for row in rows:
            row |= {"outcome": "infra", "verdict_id": None, "duration_s": None}

    checks = check_table(
        "test_verdicts", corrupted("test_verdicts", never_answered), full_context()
    )
    assert {c.expectation for c in checks if not c.success} == {"infra_share"}


def test_a_sandbox_that_ran_no_program_is_found_among_answers_never_given():
    def tried_in_vain(rows: Rows) -> None:
        for row in rows:
            row |= {"outcome": "infra", "duration_s": None}
        for row in rows[1:]:
            row["verdict_id"] = None

    failed = blocking_failures(
        check_table("test_verdicts", corrupted("test_verdicts", tried_in_vain), full_context())
    )
    assert [c.expectation for c in failed] == ["not_all_infra"]
    assert "all 1 programs that ran ended as infra" in failed[0].detail


def test_a_dialog_of_user_turns_alone_is_right():
    def only_users(rows: Rows) -> None:
        for row in rows:
            row["turns"] = [t for t in row["turns"] if t["role"] == "user"]

    assert (
        blocking_failures(check_table("dialogs", corrupted("dialogs", only_users), full_context()))
        == []
    )


def test_system_turns_may_open_a_dialog():
    def open_with_system(rows: Rows) -> None:
        rows[0]["turns"].insert(0, rows[0]["turns"][0] | {"role": "system", "content": "Be brief."})

    assert (
        blocking_failures(
            check_table("dialogs", corrupted("dialogs", open_with_system), full_context())
        )
        == []
    )


def test_digests_are_compared_with_the_problems_own():
    other = full_context(problem_digests={name: digest(f"edited {name}") for name in PROBLEMS})
    failed = [
        c.expectation
        for c in blocking_failures(check_table("dialogs", valid_tables()["dialogs"], other))
    ]
    assert failed == ["dialog_has_problem"]
