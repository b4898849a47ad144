"""The corruptions of each stage."""

import math
import random
from typing import Any

from tests.corruptions.case import CHANGED, DAMAGED, OTHER, Case, is_scored
from tests.corruptions.publication_cases import PASSED
from tests.corruptions.spoiling import (
    Rows,
    added,
    answer,
    bit_flipped,
    cut,
    doubled,
    doubled_with,
    emptied,
    exchanged,
    last_answer_lost,
    lost,
    models_served,
    of_another_run,
    of_older_version,
    of_table,
    put,
    put_everywhere,
    put_where,
    roles_swapped,
    rows_changed,
    said,
    turn_doubled,
    turn_lost,
)


def _tests_emptied(rows: Rows, rng: random.Random) -> None:
    rng.choice(rng.choice(rows)["instructions"])["suite"]["tests"] = [" "]


def _instruction_twice(rows: Rows, rng: random.Random) -> None:
    instructions = rng.choice(rows)["instructions"]
    instructions[-1]["instruction_id"] = instructions[-2]["instruction_id"]


def _base_renamed(rows: Rows, rng: random.Random) -> None:
    rng.choice(rows)["instructions"][0]["instruction_id"] = "something else"


def _accuracy_contradicts(rows: Rows, rng: random.Random) -> None:
    """The conversation holds, but the turn's own instruction failed."""
    held = [r for r in rows if r["metric"] == "conversation_accuracy_strict" and r["value"] == 1.0]
    chosen = rng.choice(held)
    place = ("episode_id", "turn")
    for row in rows:
        if row["metric"] == "instruction_accuracy" and all(row[c] == chosen[c] for c in place):
            row["value"] = 0.0


def _is(**values: Any) -> Any:
    return lambda row: all(row[name] == value for name, value in values.items())


STAGED = (
    Case("a dialog is lost", "staged", "dialogs", rows_changed(lost), "CorruptRows"),
    Case("a dialog stands twice", "staged", "dialogs", rows_changed(doubled), "CorruptRows"),
    Case(
        "roles of a dialog are swapped",
        "staged",
        "dialogs",
        said(roles_swapped, "turns"),
        "user_and_assistant_alternate",
    ),
    Case(
        "a turn of a dialog is missing",
        "staged",
        "dialogs",
        said(turn_lost, "turns"),
        "turns_numbered_from_one",
    ),
    Case(
        "a turn of a dialog stands twice",
        "staged",
        "dialogs",
        said(turn_doubled, "turns"),
        "user_and_assistant_alternate",
    ),
    Case(
        "dialogs of two versions are mixed",
        "staged",
        "dialogs",
        put("dataset_version", "v0"),
        "one_dataset_version",
    ),
    Case("a dialog has no id", "staged", "dialogs", put("dialog_id", None), DAMAGED),
    Case("dialogs are cut off", "staged", "dialogs", cut, DAMAGED),
    Case("a bit of the dialogs flipped", "staged", "dialogs", bit_flipped, DAMAGED),
    Case("problems lie where dialogs should", "staged", "dialogs", of_table("problems"), DAMAGED),
    Case("problems have no byte", "staged", "problems", emptied, DAMAGED),
    Case(
        "a problem is of another raw row",
        "staged",
        "problems",
        put("row_digest", OTHER),
        "dialog_has_problem",
    ),
    Case(
        "an instruction has no test",
        "staged",
        "problems",
        rows_changed(_tests_emptied),
        "tests_not_empty",
    ),
    Case(
        "an instruction stands twice",
        "staged",
        "problems",
        rows_changed(_instruction_twice),
        "instruction_ids_unique",
    ),
    Case(
        "no instruction is the base",
        "staged",
        "problems",
        rows_changed(_base_renamed),
        "base_instruction_first",
    ),
    Case(
        "a problem is of another benchmark",
        "staged",
        "problems",
        put("benchmark", "other"),
        "problem_of_benchmark",
    ),
    Case(
        "problems of two versions are mixed",
        "staged",
        "problems",
        put("dataset_version", "v0"),
        "one_dataset_version",
    ),
)

CONVERSED = (
    Case("a turn is missing", "converse", "episodes", said(turn_lost), "turns_contiguous"),
    Case(
        "the last answer is missing",
        "converse",
        "episodes",
        said(last_answer_lost),
        "all_turns_answered",
    ),
    Case("a turn stands twice", "converse", "episodes", said(turn_doubled), "turn_and_role_once"),
    Case("roles are swapped", "converse", "episodes", said(roles_swapped), "user_before_assistant"),
    Case(
        "tokens are negative",
        "converse",
        "episodes",
        said(answer(output_tokens=-3)),
        "counts_not_negative",
    ),
    Case(
        "a latency is NaN",
        "converse",
        "episodes",
        said(answer(latency_s=math.nan)),
        "counts_not_negative",
    ),
    Case(
        "time goes backwards",
        "converse",
        "episodes",
        put("finished_at", "2001-01-01T00:00:00Z"),
        "started_before_finished",
    ),
    Case(
        "an episode is of another version",
        "converse",
        "episodes",
        put("dataset_version", "v0"),
        "episode_of_its_id",
    ),
    Case(
        "all are of another setting",
        "converse",
        "episodes",
        put_everywhere(setting="dynamic"),
        "episode_of_its_id",
    ),
    Case(
        "a row digest is another dialog's",
        "converse",
        "episodes",
        put("row_digest", OTHER),
        "episode_of_its_id",
    ),
    Case(
        "two ids are exchanged",
        "converse",
        "episodes",
        exchanged("episode_id"),
        "episode_of_its_id",
    ),
    Case(
        "an episode is another model's",
        "converse",
        "episodes",
        put("model", "openai:other"),
        "episode_of_run",
    ),
    Case(
        "a reason to stop is unknown",
        "converse",
        "episodes",
        put("stop_reason", "bored"),
        "stop_reason_known",
    ),
    Case(
        "the endpoint changes its model",
        "converse",
        "episodes",
        said(models_served),
        "served_model_unchanged",
    ),
    Case("an episode is lost", "converse", "episodes", rows_changed(lost), "listed_episode_exists"),
    Case("an episode has no id", "converse", "episodes", put("episode_id", None), DAMAGED),
    Case("what was said is null", "converse", "episodes", said(answer(content=None)), DAMAGED),
    Case("a shard is cut off", "converse", "episodes", cut, DAMAGED),
    Case("a shard has no byte", "converse", "episodes", emptied, DAMAGED),
    Case("scores lie where a shard should", "converse", "episodes", of_table("scores"), DAMAGED),
    Case("a shard is of an older schema", "converse", "episodes", of_older_version, DAMAGED),
    Case("a bit of a shard flipped", "converse", "episodes", bit_flipped, DAMAGED),
    Case(
        "a listed episode never was",
        "converse",
        "run_episodes",
        doubled_with(episode_id=OTHER),
        "listed_episode_exists",
    ),
    Case(
        "an episode is not listed",
        "converse",
        "run_episodes",
        rows_changed(lost),
        "episode_contained",
    ),
    Case(
        "an episode is listed as another's",
        "converse",
        "run_episodes",
        put("problem_id", "function/999"),
        "episode_contained",
    ),
)

EXECUTED = (
    Case(
        "a verdict is missing",
        "execute",
        "test_verdicts",
        rows_changed(lost),
        "due_verdict_present",
    ),
    Case(
        "two verdicts disagree",
        "execute",
        "test_verdicts",
        doubled_with(outcome="failed"),
        "verdict_unique",
    ),
    Case(
        "a verdict has no episode",
        "execute",
        "test_verdicts",
        put("episode_id", OTHER),
        "episode_and_turn_exist",
    ),
    Case(
        "a verdict is of another turn",
        "execute",
        "test_verdicts",
        added("turn", 40),
        "episode_and_turn_exist",
    ),
    Case(
        "a verdict is of another sample",
        "execute",
        "test_verdicts",
        added("sample", 1),
        "row_of_its_episode",
    ),
    Case(
        "a verdict is of another problem",
        "execute",
        "test_verdicts",
        put("problem_id", "x/1"),
        "row_of_its_episode",
    ),
    Case(
        "an outcome is unknown", "execute", "test_verdicts", put("outcome", "PASS"), "outcome_known"
    ),
    Case(
        "a duration is negative",
        "execute",
        "test_verdicts",
        put("duration_s", -0.5),
        "duration_not_negative",
    ),
    Case(
        "a duration is infinite",
        "execute",
        "test_verdicts",
        put("duration_s", math.inf),
        "duration_not_negative",
    ),
    Case(
        "a program passed that never ran",
        "execute",
        "test_verdicts",
        put("verdict_id", None),
        "verdict_id_iff_run",
    ),
    Case(
        "verdicts of another run lie there",
        "execute",
        "test_verdicts",
        of_another_run,
        "verdict_of_run",
    ),
    Case("verdicts are cut off", "execute", "test_verdicts", cut, DAMAGED),
)

SCORED = (
    Case(
        "a score is above its range",
        "score",
        "scores",
        put_where("value", 1.5, is_scored),
        "value_in_range",
    ),
    Case(
        "a score is NaN", "score", "scores", put_where("value", math.nan, is_scored), "value_finite"
    ),
    Case(
        "a score has value and reason",
        "score",
        "scores",
        put_where("unscored_reason", "infra", is_scored),
        "value_xor_reason",
    ),
    Case(
        "a score has neither",
        "score",
        "scores",
        put_where("value", None, is_scored),
        "value_xor_reason",
    ),
    Case("a metric is unknown", "score", "scores", put("metric", "vibes"), "metric_known"),
    Case("a score is doubled", "score", "scores", rows_changed(doubled), "score_unique"),
    Case(
        "a score is missing",
        "score",
        "scores",
        put_where("turn", 0, _is(metric="instruction_accuracy")),
        "due_score_present",
    ),
    Case(
        "a score has no episode",
        "score",
        "scores",
        put("episode_id", OTHER),
        "episode_and_turn_exist",
    ),
    Case(
        "a score is another sample's", "score", "scores", added("sample", 1), "row_of_its_episode"
    ),
    Case(
        "two metrics disagree",
        "score",
        "scores",
        rows_changed(_accuracy_contradicts),
        "metrics_agree",
    ),
    Case(
        "a metric has two versions",
        "score",
        "scores",
        put("metric_version", 9),
        "one_version_per_metric",
    ),
    Case("scores of another run lie there", "score", "scores", of_another_run, "one_run"),
    Case(
        "verdicts change while scores are made",
        "score",
        "test_verdicts",
        put("outcome", "failed"),
        CHANGED,
    ),
)

CASES = (*STAGED, *CONVERSED, *EXECUTED, *SCORED, *PASSED)
