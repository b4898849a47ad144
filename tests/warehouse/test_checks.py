"""Every suite passes what is right, and each corruption fails the one rule that names it."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.warehouse.checked_tables import (
    PROBLEMS,
    Rows,
    corrupted,
    full_context,
    valid_tables,
    with_tools,
)
from tests.warehouse.spoiled_rows import (
    answer_all,
    drop_first,
    put,
    put_everywhere,
    put_in,
    repeat_first,
    swap,
)
from warehouse.checks import SUITES, CheckContext, blocking_failures, check_table, validation

OTHER = "f" * 32


def cut_items(outer: str, keep: slice, row: int = 0):
    def spoil(rows: Rows) -> None:
        rows[row][outer] = rows[row][outer][keep]

    return spoil


def repeat_item(outer: str, place: int):
    def spoil(rows: Rows) -> None:
        rows[0][outer].insert(place, dict(rows[0][outer][place]))

    return spoil


def unscore(row: int):
    def spoil(rows: Rows) -> None:
        rows[row] |= {"value": None, "unscored_reason": "infra"}

    return spoil


def unsaid(reason: str):
    def spoil(rows: Rows) -> None:
        rows[0] |= {"value": None, "label": None, "unscored_reason": reason}

    return spoil


def half_infra(rows: Rows) -> None:
    for row in rows[:3]:
        row["outcome"] = "infra"


def fail_and_pass(rows: Rows) -> None:
    rows[0] |= {"verdict_id": "same", "outcome": "failed"}
    rows[1] |= {"verdict_id": "same"}


BLOCKING = [
    ("dialogs", "dialogs_staged", list.clear),
    ("dialogs", "dialog_id_present", put("dialog_id", None)),
    ("dialogs", "dialog_id_not_blank", put("dialog_id", "  ")),
    ("dialogs", "dialog_id_unique", repeat_first),
    ("dialogs", "row_digest_format", put("row_digest", "DEADBEEF")),
    ("dialogs", "dialog_of_benchmark", put("benchmark", "another")),
    ("dialogs", "roles_known", put_in("turns", 1, "role", "tool")),
    ("dialogs", "turns_numbered_from_one", put_in("turns", 2, "turn", 4)),
    ("dialogs", "turns_numbered_from_one", put_in("turns", 0, "turn", 0)),
    ("dialogs", "user_and_assistant_alternate", swap("turns", 0, 1)),
    ("dialogs", "user_and_assistant_alternate", repeat_item("turns", 2)),
    ("dialogs", "user_and_assistant_alternate", put_in("turns", 2, "role", "system")),
    ("dialogs", "first_user_turn_present", cut_items("turns", slice(1, None))),
    ("dialogs", "first_user_turn_present", put_in("turns", 0, "content", None)),
    ("dialogs", "no_blank_turn", put_in("turns", 2, "content", " \n")),
    ("dialogs", "something_to_answer", answer_all),
    ("dialogs", "context_staged", put("context_id", OTHER)),
    ("dialogs", "context_staged", put("context_turns", 3)),
    ("dialogs", "context_staged", put("context_turns", 0)),
    ("dialogs", "context_staged", put("context_id", None)),
    ("dialogs", "dialog_has_problem", put("problem_id", "function/99")),
    ("dialogs", "dialog_has_problem", put("row_digest", OTHER)),
    ("dialogs", "dialog_has_problem", put("problem_digest", OTHER)),
    ("dialogs", "problem_has_dialog", drop_first),
    ("dialogs", "one_dataset_version", put("dataset_version", "v0")),
    ("problems", "one_dataset_version", put("dataset_version", "v0")),
    ("problems", "problems_staged", list.clear),
    ("problems", "problem_id_present", put("problem_id", None)),
    ("problems", "problem_id_not_blank", put("problem_id", "")),
    ("problems", "problem_id_unique", repeat_first),
    ("problems", "level_present", put("level", None)),
    ("problems", "level_not_blank", put("level", "")),
    ("problems", "row_digest_format", put("row_digest", "xyz")),
    ("problems", "source_line_from_one", put("source_line", 0)),
    ("problems", "problem_of_benchmark", put("benchmark", "another")),
    ("problems", "base_instruction_first", swap("instructions", 0, 1)),
    ("problems", "instruction_ids_unique", put_in("instructions", 1, "instruction_id", "base")),
    ("problems", "tests_not_empty", put_in("instructions", 1, "suite", {"tests": []})),
    (
        "problems",
        "tests_not_empty",
        put_in("instructions", 0, "suite", {"tests": ["assert True", " "]}),
    ),
    ("problems", "prompt_not_blank", put("prompt", "\t")),
    ("problems", "input_rows_accounted_for", drop_first),
    ("episodes", "episodes_took_place", list.clear),
    ("episodes", "episode_id_present", put("episode_id", None)),
    ("episodes", "episode_id_format", put("episode_id", "7")),
    ("episodes", "episode_id_unique", repeat_first),
    ("episodes", "stop_reason_known", put("stop_reason", "bored")),
    ("episodes", "sample_from_zero", put("sample", -1)),
    ("episodes", "attempt_from_one", put("attempt", 0)),
    ("episodes", "episode_of_run", put("model", "openai:other")),
    ("episodes", "episode_wanted", put("episode_id", OTHER)),
    ("episodes", "episode_of_its_id", put("row_digest", OTHER)),
    ("episodes", "episode_of_its_id", put("sample", 1)),
    ("episodes", "episode_of_its_id", put_everywhere(setting="dynamic")),
    ("episodes", "episode_contained", put("episode_id", OTHER)),
    ("episodes", "episode_contained", put("problem_id", "function/99")),
    ("episodes", "listed_episode_exists", drop_first),
    ("episodes", "served_model_unchanged", put_in("steps", 1, "served_model", "gold-2")),
    ("episodes", "turns_contiguous", put_in("steps", 2, "turn", 3)),
    ("episodes", "turns_contiguous", cut_items("steps", slice(2, None))),
    ("episodes", "user_before_assistant", swap("steps", 0, 1)),
    ("episodes", "turn_and_role_once", repeat_item("steps", 1)),
    ("episodes", "steps_before_their_message", with_tools((1, "turn", 2))),
    ("episodes", "steps_before_their_message", with_tools((1, "role", "user"))),
    ("episodes", "observation_of_a_call", with_tools((2, "call_id", "c"))),
    ("episodes", "observation_of_a_call", with_tools((3, "call_id", "a"))),
    (
        "episodes",
        "calls_observed",
        with_tools((3, "kind", "artifact"), (3, "call_id", None), (3, "role", "assistant")),
    ),
    ("episodes", "counts_not_negative", put_in("steps", 1, "output_tokens", -7)),
    ("episodes", "counts_not_negative", put_in("steps", 1, "latency_s", -0.1)),
    ("episodes", "counts_not_negative", put_in("steps", 1, "latency_s", math.nan)),
    ("episodes", "started_before_finished", put("finished_at", "2025-01-01T00:00:00+00:00")),
    ("episodes", "started_before_finished", put("finished_at", "yesterday")),
    ("episodes", "finished_with_an_answer", cut_items("steps", slice(0, 1))),
    ("episodes", "all_turns_answered", cut_items("steps", slice(0, 2))),
    ("episodes", "all_turns_answered", put("row_digest", OTHER)),
    ("episodes", "one_model", put("model", "openai:other")),
    ("episodes", "one_setting", put("setting", "dynamic")),
    ("episodes", "one_dataset_version", put("dataset_version", "v0")),
    ("test_verdicts", "verdicts_present", list.clear),
    ("test_verdicts", "episode_id_present", put("episode_id", None)),
    ("test_verdicts", "instruction_id_present", put("instruction_id", None)),
    ("test_verdicts", "outcome_known", put("outcome", "PASSED")),
    ("test_verdicts", "verdict_unique", repeat_first),
    ("test_verdicts", "turn_from_one", put("turn", 0)),
    ("test_verdicts", "duration_not_negative", put("duration_s", -1.0)),
    ("test_verdicts", "duration_within_limit", put("duration_s", 51.0)),
    ("test_verdicts", "verdict_of_run", put("model", "openai:other")),
    ("test_verdicts", "episode_and_turn_exist", put("episode_id", OTHER)),
    ("test_verdicts", "episode_and_turn_exist", put("turn", 3)),
    ("test_verdicts", "duration_not_negative", put("duration_s", math.nan)),
    ("test_verdicts", "row_of_its_episode", put("sample", 1)),
    ("test_verdicts", "row_of_its_episode", put("problem_id", PROBLEMS[1])),
    ("test_verdicts", "verdict_expected", put("instruction_id", "nobody asked")),
    ("test_verdicts", "verdict_id_iff_run", put("verdict_id", None)),
    ("test_verdicts", "verdict_id_iff_run", put("outcome", "error")),
    ("test_verdicts", "due_verdict_present", drop_first),
    ("test_verdicts", "not_all_infra", put_everywhere(outcome="infra")),
    ("test_verdicts", "one_run", put("run_id", OTHER)),
    ("forgery_audit", "verdict_id_present", put("verdict_id", None)),
    ("forgery_audit", "outcome_known", put("outcome", "guilty")),
    ("forgery_audit", "audit_unique", repeat_first),
    ("forgery_audit", "turn_from_one", put("turn", 0)),
    ("forgery_audit", "decoys_not_negative", put("n_decoys", -1)),
    ("forgery_audit", "runs_not_negative", put("n_runs", -1)),
    ("forgery_audit", "duration_not_negative", put("duration_s", -1.0)),
    ("forgery_audit", "audit_of_run", put("model", "openai:other")),
    ("forgery_audit", "row_of_its_episode", put("problem_id", PROBLEMS[1])),
    ("forgery_audit", "audit_expected", put("instruction_id", "nobody asked")),
    ("forgery_audit", "audit_expected", put("verdict_id", OTHER)),
    ("forgery_audit", "outcome_has_ground", put_everywhere(outcome="forged", is_sound=False)),
    (
        "forgery_audit",
        "outcome_has_ground",
        put_everywhere(outcome="suspected", is_sound=False, n_decoys=0),
    ),
    ("forgery_audit", "drawn_pass_audited", drop_first),
    ("judge_verdicts", "episode_id_present", put("episode_id", None)),
    ("judge_verdicts", "judgement_id_present", put("judgement_id", None)),
    ("judge_verdicts", "judgement_unique", repeat_first),
    ("judge_verdicts", "turn_from_zero", put("turn", -1)),
    ("judge_verdicts", "calls_not_negative", put("n_calls", -1)),
    ("judge_verdicts", "reason_known", unsaid("lost")),
    ("judge_verdicts", "judgement_of_run", put("model", "openai:other")),
    ("judge_verdicts", "value_word_or_reason", put("value", None)),
    ("judge_verdicts", "value_word_or_reason", put("label", "warm")),
    ("judge_verdicts", "episode_and_turn_exist", put("turn", 3)),
    ("judge_verdicts", "row_of_its_episode", put("sample", 1)),
    ("judge_verdicts", "value_in_range", put("value", 6.0)),
    ("judge_verdicts", "judge_of_rubric", put("judge", "openai:another")),
    ("judge_verdicts", "judgement_expected", put("dimension", "length")),
    ("judge_verdicts", "due_judgement_present", drop_first),
    (
        "judge_verdicts",
        "not_all_missing",
        put_everywhere(value=None, label=None, unscored_reason="judge_unparsable"),
    ),
    ("scores", "scores_present", list.clear),
    ("scores", "episode_id_present", put("episode_id", None)),
    ("scores", "metric_present", put("metric", None)),
    ("scores", "score_unique", repeat_first),
    ("scores", "turn_from_zero", put("turn", -1)),
    ("scores", "metric_version_from_one", put("metric_version", 0)),
    ("scores", "reason_known", put("unscored_reason", "tired", row=6)),
    ("scores", "value_xor_reason", put("unscored_reason", "infra")),
    ("scores", "value_xor_reason", put("value", None)),
    ("scores", "value_finite", put("value", math.nan)),
    ("scores", "value_finite", put("value", math.inf)),
    ("scores", "value_in_range", put("value", 1.2)),
    ("scores", "value_in_range", put("value", -0.5)),
    ("scores", "metric_known", put("metric", "vibes")),
    ("scores", "score_of_run", put("benchmark", "another")),
    ("scores", "episode_and_turn_exist", put("episode_id", OTHER)),
    ("scores", "episode_and_turn_exist", put("turn", 9)),
    ("scores", "row_of_its_episode", put("sample", 1)),
    ("scores", "row_of_its_episode", put("problem_id", PROBLEMS[1])),
    ("scores", "due_score_present", drop_first),
    ("scores", "metrics_agree", put("value", 0.0)),
    ("scores", "metrics_agree", unscore(0)),
    ("scores", "something_scored", put_everywhere(value=None, unscored_reason="infra")),
    ("scores", "one_version_per_metric", put("metric_version", 2)),
    ("scores", "one_run", put("run_id", OTHER)),
]

WARNINGS = [
    ("problems", "instruction_text_not_blank", put_in("instructions", 1, "text", "")),
    ("problems", "reference_code_present", put("reference_code", "")),
    ("episodes", "stop_explained", put("error", None, row=1)),
    ("episodes", "wanted_episode_present", drop_first),
    ("episodes", "one_served_model", put_in("steps", 1, "served_model", "gold-2")),
    ("test_verdicts", "infra_share", half_infra),
    ("test_verdicts", "equal_programs_agree", fail_and_pass),
    ("test_verdicts", "one_sandbox", put("sandbox", "none")),
    ("scores", "unscored_share", unscore(1)),
    ("judge_verdicts", "fault_share", unsaid("judge_unparsable")),
]


def names(cases: list[Any]) -> list[str]:
    return [f"{table}-{rule}-{number}" for number, (table, rule, _) in enumerate(cases)]


@pytest.mark.parametrize("table", SUITES)
def test_valid_tables_pass_every_rule(table: str):
    checks = check_table(table, valid_tables()[table], full_context())
    assert [c.expectation for c in checks if not c.success] == []
    assert [c.expectation for c in checks] == [
        rule.name for frame in SUITES[table].frames for rule in frame.rules
    ]
    assert {(c.run_id, c.table_name, c.checked_at) for c in checks} == {
        (full_context().run_id, table, full_context().checked_at)
    }


@pytest.mark.slow
@pytest.mark.parametrize(("table", "rule", "spoil"), BLOCKING, ids=names(BLOCKING))
def test_a_corrupted_table_is_blocked_by_the_rule_that_names_it(table: str, rule: str, spoil: Any):
    checks = check_table(table, corrupted(table, spoil), full_context())
    assert rule in [c.expectation for c in blocking_failures(checks) if not c.crashed]
    caught = next(c for c in checks if c.expectation == rule)
    assert caught.detail


@pytest.mark.slow
@pytest.mark.parametrize(("table", "rule", "spoil"), WARNINGS, ids=names(WARNINGS))
def test_a_doubtful_table_is_warned_of_and_not_blocked(table: str, rule: str, spoil: Any):
    lenient = full_context(check_served_model=None, contained_episodes=None)
    checks = check_table(table, corrupted(table, spoil), lenient)
    assert [c.expectation for c in checks if not c.success] == [rule]
    assert blocking_failures(checks) == []


def test_every_rule_has_a_corruption_that_it_catches():
    covered = {(table, rule) for table, rule, _ in BLOCKING + WARNINGS}
    assert {
        (table, rule.name)
        for table, suite in SUITES.items()
        for f in suite.frames
        for rule in f.rules
    } == covered


def test_blocking_and_warning_rules_are_what_the_lists_above_say():
    blocking = {
        (t, r.name)
        for t, suite in SUITES.items()
        for f in suite.frames
        for r in f.rules
        if r.blocking
    }
    assert blocking == {(table, rule) for table, rule, _ in BLOCKING}


@pytest.mark.parametrize("table", SUITES)
def test_a_rule_is_left_out_where_its_fact_is_unknown(table: str):
    known = full_context()
    bare = CheckContext(
        run_id=known.run_id,
        benchmark=known.benchmark,
        model=known.model,
        checked_at=known.checked_at,
    )
    asked = {c.expectation for c in check_table(table, valid_tables()[table], bare)}
    assert asked == {
        rule.name for frame in SUITES[table].frames for rule in frame.rules if rule.needs is None
    }


@pytest.mark.parametrize("table", ["dialogs", "problems"])
def test_a_datasets_rows_are_judged_once_for_all_runs_on_it(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    judge = validation.validate
    monkeypatch.setattr(
        validation,
        "validate",
        lambda suite, *given: judged.append(suite.table) or judge(suite, *given),
    )
    data, context = valid_tables()[table], replace(full_context(), n_quarantined=7)
    first = check_table(table, data, context)
    again = check_table(
        table,
        data.slice(0),
        replace(context, run_id=OTHER, model="other", checked_at="2026-01-02T00:00:00Z"),
    )
    assert judged == [table]
    assert [check.success for check in again] == [check.success for check in first]
    assert {(check.run_id, check.model, check.checked_at) for check in again} == {
        (OTHER, "other", "2026-01-02T00:00:00Z")
    }
    fewer = check_table(table, data.slice(1), context)
    assert judged == [table, table], "other rows"
    assert blocking_failures(fewer)
    check_table(table, data, replace(context, n_quarantined=8))
    assert judged == [table] * 3, "other facts"
