"""Corruptions after all checks passed, before publication."""

import random

from tests.corruptions.case import CHANGED, Case, is_scored
from tests.corruptions.spoiling import (
    Rows,
    added,
    answer,
    cut,
    emptied,
    lost,
    of_another_run,
    of_older_version,
    put,
    put_where,
    removed,
    rows_changed,
    said,
)


def _one_more_wrong(rows: Rows, rng: random.Random) -> None:
    for row in rows:
        row["n_unscored"] += 1 + rng.randrange(9)


def _other_seed(rows: Rows, rng: random.Random) -> None:
    for row in rows:
        row["spec_json"] = row["spec_json"].replace('"seed":0', f'"seed":{1 + rng.randrange(9)}')


PASSED = (
    Case(
        "a checked score is raised", "passed", "scores", put_where("value", 0.5, is_scored), CHANGED
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
