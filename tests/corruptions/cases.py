"""The corruptions: what is spoiled, when, and which check must catch it."""

import math
import random
from dataclasses import dataclass
from typing import Any, Literal

from tests.corruptions.spoiling import (
    Rows,
    Spoil,
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
    removed,
    roles_swapped,
    rows_changed,
    said,
    turn_doubled,
    turn_lost,
)

When = Literal["staged", "converse", "execute", "score", "passed"]
"""`staged`: the dataset at rest, before a run is planned. `converse`, `execute`, `score`: after that stage, before what reads it.
`passed`: after all checks passed, before publication."""
OTHER = "f" * 32
DAMAGED = "SchemaMismatch"
CHANGED = "files_unchanged"


@dataclass(frozen=True)
class Case:
    """One corruption. `caught_by` is a rule of the table's suite, a rule of publication, or the class of an error."""

    name: str
    when: When
    table: str
    spoil: Spoil
    caught_by: str

    @property
    def seed(self) -> int:
        return sum(map(ord, self.name))


def _one_more_wrong(rows: Rows, rng: random.Random) -> None:
    for row in rows:
        row["n_unscored"] += 1 + rng.randrange(9)


def _other_seed(rows: Rows, rng: random.Random) -> None:
    for row in rows:
        row["spec_json"] = row["spec_json"].replace('"seed":0', f'"seed":{1 + rng.randrange(9)}')


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


def _scored(row: Any) -> bool:
    return row["value"] is not None


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
        put_where("value", 1.5, _scored),
        "value_in_range",
    ),
    Case(
        "a score is NaN", "score", "scores", put_where("value", math.nan, _scored), "value_finite"
    ),
    Case(
        "a score has value and reason",
        "score",
        "scores",
        put_where("unscored_reason", "infra", _scored),
        "value_xor_reason",
    ),
    Case(
        "a score has neither",
        "score",
        "scores",
        put_where("value", None, _scored),
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

PASSED = (
    Case(
        "a checked score is raised", "passed", "scores", put_where("value", 0.5, _scored), CHANGED
    ),
    Case(
        "a checked score's metric changes",
        "passed",
        "scores",
        put("metric", "conversation_accuracy_strict"),
        CHANGED,
    ),
    Case("checked scores go away", "passed", "scores", removed, CHANGED),
    Case("checked scores are cut off", "passed", "scores", cut, CHANGED),
    Case("scores are added to the checked", "passed", "scores", of_another_run, CHANGED),
    Case(
        "a checked verdict is turned", "passed", "test_verdicts", put("outcome", "failed"), CHANGED
    ),
    Case(
        "a checked answer is edited",
        "passed",
        "episodes",
        said(answer(content="def f(): ...")),
        CHANGED,
    ),
    Case("a checked shard has no byte", "passed", "episodes", emptied, CHANGED),
    Case(
        "a checked episode is no longer listed",
        "passed",
        "run_episodes",
        rows_changed(lost),
        CHANGED,
    ),
    Case("the checks' rows are removed", "passed", "quality_checks", rows_changed(lost), CHANGED),
    Case(
        "a record miscounts what is unscored",
        "passed",
        "runs",
        rows_changed(_one_more_wrong),
        "record_counts",
    ),
    Case(
        "a record miscounts its episodes", "passed", "runs", added("n_episodes", 2), "record_counts"
    ),
    Case(
        "a record is of another specification",
        "passed",
        "runs",
        rows_changed(_other_seed),
        "record_of_run",
    ),
    Case(
        "a record names another version",
        "passed",
        "runs",
        put("dataset_version", "v0"),
        "run_of_episodes",
    ),
    Case("a record is cut off", "passed", "runs", cut, "cannot be read"),
    Case("a record is of an older schema", "passed", "runs", of_older_version, "schema version 0"),
    Case("the dataset is cut off", "passed", "problems", cut, "cannot be read"),
)

CASES = (*STAGED, *CONVERSED, *EXECUTED, *SCORED, *PASSED)
