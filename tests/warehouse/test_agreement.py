"""The table `agreement`: pairs, consensus and what is missing, by a hand-worked set of ratings."""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from sklearn.metrics import cohen_kappa_score

from schemas.verdict import JudgeVerdict, Rating
from tests.warehouse.small_lake import SmallLake
from tests.warehouse.small_run import write_part
from warehouse.agreement import (
    EVERYBODY,
    ONE_CATEGORY,
    POOLED,
    WORDS,
    Item,
    Mark,
    consensus,
    pooled_rows,
)
from warehouse.connect import query
from warehouse.publication.publish import publish

ANN = {("P1", 1): 1.0, ("P1", 2): 1.0, ("P2", 1): 2.0, ("P2", 2): 2.0, ("P3", 1): 2.0}
BEN = {("P1", 1): 1.0, ("P1", 2): 2.0, ("P2", 1): 2.0, ("P2", 2): 2.0}
JUDGE = {("P1", 1): 1.0, ("P1", 2): 2.0, ("P2", 1): 2.0, ("P2", 2): 2.0, ("P3", 2): 1.0}


def rate(
    lake: SmallLake,
    rater: str,
    given: Mapping[tuple[str, int], float | str],
    dimension: str = "clarity",
) -> None:
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
    assert (row["n"], row["share_equal"], row["kappa"], row["kappa_undefined_because"]) == (
        2,
        1.0,
        None,
        ONE_CATEGORY,
    )
    assert (row["weighted_kappa"], row["weighted_undefined_because"]) == (None, WORDS)


@pytest.mark.slow
def test_a_changed_rating_changes_the_next_publication(lake: SmallLake) -> None:
    rate(lake, "ann", ANN)
    rate(lake, "ben", BEN)
    assert rows(lake)["raters", "ann", "ben"]["kappa"] == pytest.approx(0.5)
    rate(lake, "ann", BEN)
    assert rows(lake)["raters", "ann", "ben"]["kappa"] == 1.0


def test_the_consensus_is_a_mark_that_someone_gave() -> None:
    numbers: list[dict[Item, Mark]] = [
        {("e", 1): 1.0, ("e", 2): 3.0},
        {("e", 1): 2.0, ("e", 2): 5.0},
        {("e", 1): 5.0, ("f", 1): 1.0},
    ]
    assert consensus(numbers) == {("e", 1): 2.0, ("e", 2): 3.0}
    words: list[dict[Item, Mark]] = [
        {("e", 1): "warm", ("e", 2): "warm"},
        {("e", 1): "cold", ("e", 2): "cold"},
        {("e", 1): "cold"},
    ]
    assert consensus(words) == {("e", 1): "cold"}


def ratings(
    draw: random.Random, raters: int, things: int, dimensions: Sequence[str]
) -> dict[str, dict[str, dict[Item, Mark]]]:
    """dimension -> rater -> marks from 1 to 5 of most things, near each other."""
    truth = {(dimension, n): draw.randint(1, 5) for dimension in dimensions for n in range(things)}
    return {
        dimension: {
            f"r{rater}": {
                (f"e{n // 2}", n % 2): float(
                    min(5, max(1, truth[dimension, n] + draw.choice((-1, 0, 0, 0, 1))))
                )
                for n in range(things)
                if draw.random() < 0.9
            }
            for rater in range(raters)
        }
        for dimension in dimensions
    }


@pytest.mark.parametrize("seed", range(60))
def test_the_pooled_kappa_is_that_of_all_ratings_laid_end_to_end(seed: int) -> None:
    """About 400 kappas in all, plain and weighted."""
    draw = random.Random(seed)
    n_raters, dimensions = (
        draw.randint(2, 3 + (seed % 4 == 0)),
        [f"d{n}" for n in range(draw.randint(1, 6))],
    )
    people = ratings(draw, n_raters, draw.randint(4, 12), dimensions)
    judges = ratings(draw, 1, 30, dimensions)
    found = {
        (row[2], row[3], row[4]): row
        for row in pooled_rows("x", *(_by_rubric(one) for one in (people, judges)))
    }
    if len(dimensions) == 1 and n_raters == 2:
        assert found == {}
        return
    names = sorted(people["d0"])
    ends: dict[tuple[str, str, str], list[tuple[Mark, Mark]]] = {}
    for dimension in dimensions:
        of_judge = judges[dimension]["r0"]
        for name in names:
            own = people[dimension][name]
            pairs = [(own[thing], of_judge[thing]) for thing in own if thing in of_judge]
            ends.setdefault(("rater_judge", EVERYBODY, "r0"), []).extend(pairs)
            ends.setdefault(("rater_judge", name, "r0"), []).extend(pairs)
        for a, b in combinations(names, 2):
            one, other = people[dimension][a], people[dimension][b]
            pairs = [(one[thing], other[thing]) for thing in one if thing in other]
            ends.setdefault(("raters", EVERYBODY, EVERYBODY), []).extend(pairs)
            ends.setdefault(("raters", a, b), []).extend(pairs)
    kept = {key: pairs for key, pairs in ends.items() if key in found}
    assert ("rater_judge", EVERYBODY, "r0") in kept
    assert (("raters", EVERYBODY, EVERYBODY) in kept) == (n_raters > 2)
    assert (("raters", "r0", "r1") in kept) == (len(dimensions) > 1)
    for key, pairs in kept.items():
        first, second = zip(*pairs, strict=True)
        row = found[key]
        assert (row[1], row[5]) == (POOLED, len(pairs))
        assert row[9] == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
        assert row[13] == pytest.approx(
            cohen_kappa_score(first, second, labels=[1, 2, 3, 4, 5], weights="quadratic"), abs=1e-12
        )


def _by_rubric(
    dimensions: Mapping[str, Mapping[str, Mapping[Item, Mark]]],
) -> dict[tuple[str, str], Mapping[str, Mapping[Item, Mark]]]:
    return {("x", dimension): raters for dimension, raters in dimensions.items()}


def test_words_are_pooled_where_there_are_no_numbers() -> None:
    tone: dict[str, dict[Item, Mark]] = {"ann": {("e", 0): "warm"}, "ben": {("e", 0): "cold"}}
    score: dict[str, dict[Item, Mark]] = {"ann": {("e", 0): 1.0}, "ben": {("e", 0): 2.0}}
    words = pooled_rows("x", {("x", "a"): tone, ("x", "b"): tone}, {})
    assert [row[5] for row in words] == [2]
    mixed = pooled_rows("x", {("x", "a"): tone, ("x", "b"): score, ("x", "c"): score}, {})
    assert [(row[5], row[8]) for row in mixed] == [(2, 0.0)]
