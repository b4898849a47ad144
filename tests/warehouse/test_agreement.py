"""The table `agreement`: pairs, consensus and what is missing, by a hand-worked set of ratings."""

from collections.abc import Mapping

import pytest

from schemas.rating import Rating
from schemas.verdict import JudgeVerdict
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import write_part
from warehouse.agreement import consensus
from warehouse.connect import query
from warehouse.kappa import ONE_CATEGORY, WORDS
from warehouse.publication.publish import publish

ANN = {("P1", 1): 1.0, ("P1", 2): 1.0, ("P2", 1): 2.0, ("P2", 2): 2.0, ("P3", 1): 2.0}
BEN = {("P1", 1): 1.0, ("P1", 2): 2.0, ("P2", 1): 2.0, ("P2", 2): 2.0}
JUDGE = {("P1", 1): 1.0, ("P1", 2): 2.0, ("P2", 1): 2.0, ("P2", 2): 2.0, ("P3", 2): 1.0}


def rate(lake: SmallLake, rater: str, given: Mapping[tuple[str, int], float | str], dimension: str = "clarity") -> None:
    rows = [
        Rating(
            rater=rater,
            benchmark="codeif",
            episode_id=lake.beta.episode_id(problem, 0),
            turn=turn,
            rubric="clear",
            dimension=dimension,
            value=None if isinstance(mark, str) else mark,
            label=mark if isinstance(mark, str) else None,
        )
        for (problem, turn), mark in given.items()
    ]
    write_part(lake.home, "ratings", rows, "all", rater=rater)


def judge(lake: SmallLake) -> None:
    rows = [
        JudgeVerdict(
            run_id=lake.beta.run_id,
            benchmark="codeif",
            model=lake.beta.subject.label,
            episode_id=lake.beta.episode_id(problem, 0),
            problem_id=problem,
            sample=0,
            turn=turn,
            rubric="clear",
            judge="openai:j",
            judgement_id=f"{problem}{turn}",
            dimension="clarity",
            value=mark,
        )
        for (problem, turn), mark in JUDGE.items()
    ]
    lake.beta.write("judge_verdicts", rows)


def rows(lake: SmallLake) -> dict[tuple[str, str, str], dict[str, object]]:
    publish(lake.home)
    columns, found = query(lake.home, "select * from agreement")
    named = [dict(zip(columns, row, strict=True)) for row in found]
    return {(str(row["pair"]), str(row["first"]), str(row["second"])): row for row in named}


@pytest.mark.slow
def test_each_pair_has_a_row_with_what_both_rated_and_what_is_missing(lake: SmallLake) -> None:
    rate(lake, "ann", ANN)
    rate(lake, "ben", BEN)
    judge(lake)
    found = rows(lake)
    assert {key: (row["n"], row["n_missing"], row["n_episodes"]) for key, row in found.items()} == {
        ("raters", "ann", "ben"): (4, 1, 2),
        ("rater_judge", "ann", "openai:j"): (4, 1, 2),
        ("rater_judge", "ben", "openai:j"): (4, 0, 2),
        ("consensus_judge", "consensus", "openai:j"): (4, 0, 2),
    }
    between = found["raters", "ann", "ben"]
    # 3 of 4 alike; by chance (1/2)(1/4) + (1/2)(3/4) = 1/2: kappa = (3/4 - 1/2) / (1 - 1/2)
    assert (between["share_equal"], between["kappa"]) == (0.75, pytest.approx(0.5))
    assert between["weighted_kappa"] == between["kappa"]
    assert found["rater_judge", "ben", "openai:j"]["kappa"] == 1.0
    assert found["consensus_judge", "consensus", "openai:j"]["kappa"] == pytest.approx(0.5)


@pytest.mark.slow
def test_an_undefined_kappa_is_null_with_its_reason(lake: SmallLake) -> None:
    rate(lake, "ann", {("P1", 1): "warm", ("P2", 1): "warm"}, "tone")
    rate(lake, "ben", {("P1", 1): "warm", ("P2", 1): "warm"}, "tone")
    (row,) = rows(lake).values()
    assert (row["n"], row["share_equal"], row["kappa"], row["kappa_undefined_because"]) == (2, 1.0, None, ONE_CATEGORY)
    assert (row["weighted_kappa"], row["weighted_undefined_because"]) == (None, WORDS)


@pytest.mark.slow
def test_a_changed_rating_changes_the_next_publication(lake: SmallLake) -> None:
    rate(lake, "ann", ANN)
    rate(lake, "ben", BEN)
    assert rows(lake)["raters", "ann", "ben"]["kappa"] == pytest.approx(0.5)
    rate(lake, "ann", BEN)
    assert rows(lake)["raters", "ann", "ben"]["kappa"] == 1.0


def test_the_consensus_is_a_mark_that_someone_gave() -> None:
    numbers = [{("e", 1): 1.0, ("e", 2): 3.0}, {("e", 1): 2.0, ("e", 2): 5.0}, {("e", 1): 5.0, ("f", 1): 1.0}]
    assert consensus(numbers) == {("e", 1): 2.0, ("e", 2): 3.0}
    words = [{("e", 1): "warm", ("e", 2): "warm"}, {("e", 1): "cold", ("e", 2): "cold"}, {("e", 1): "cold"}]
    assert consensus(words) == {("e", 1): "cold"}
