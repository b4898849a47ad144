"""`parley import ratings` and `parley agreement`, as a person types them."""

import json
from pathlib import Path

import pytest

from tests.flows.parley_command import parley
from tests.warehouse.small_lake import SmallLake

HEADER = "episode_id,turn,rubric,dimension,rater,value"


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    found = SmallLake(tmp_path / "home")
    found.write_simple(found.beta)
    return found


def ratings(lake: SmallLake, *more: str) -> Path:
    path = lake.home / "file.csv"
    rows = [
        f"{lake.beta.episode_id(problem, 0)},1,clear,clarity,{rater},{value}"
        for rater, values in (("ann", "112"), ("ben", "122"))
        for problem, value in zip(("P1", "P2", "P3"), values, strict=True)
    ]
    path.write_text("\n".join((HEADER, *rows, *more)))
    return path


@pytest.mark.slow
def test_ratings_come_in_and_their_agreement_is_shown(lake: SmallLake) -> None:
    done = parley(lake.home, "import", "ratings", str(ratings(lake)))
    assert (done.code, done.out.strip().endswith("6 of 6 ratings stored, 6 new or changed")) == (
        0,
        True,
    )
    (row,) = parley(lake.home, "agreement", "--rubric", "clear", "--json").json()
    # 2 of 3 alike; by chance (2/3)(1/3) + (1/3)(2/3) = 4/9: kappa = (2/3 - 4/9) / (1 - 4/9) = 2/5
    assert (row["first"], row["second"], row["n"], row["n_missing"]) == ("ann", "ben", 3, 0)
    assert row["kappa"] == pytest.approx(0.4)
    assert "0.4" in parley(lake.home, "agreement").out
    assert parley(lake.home, "sql", "select count(*) as n from ratings", "--json").json() == [
        {"n": 6}
    ]
    wrong = parley(lake.home, "agreement", "--rubric", "claer")
    assert (wrong.code, "known: clear" in wrong.err) == (2, True)


@pytest.mark.slow
def test_rows_in_quarantine_are_counted_and_change_the_exit_code(lake: SmallLake) -> None:
    done = parley(
        lake.home, "import", "ratings", str(ratings(lake, "nobody,1,clear,clarity,ann,1")), "--json"
    )
    assert (done.code, json.loads(done.out)) == (
        3,
        {"rows": 7, "kept": 6, "changed": 6, "quarantined": 1},
    )
    held = parley(
        lake.home,
        "sql",
        "select source_line, reason from quarantine where benchmark = 'ratings'",
        "--json",
    ).json()
    assert held == [{"source_line": 8, "reason": "unknown_episode"}]
    again = parley(lake.home, "import", "ratings", str(ratings(lake)), "--json")
    assert (again.code, again.json()["changed"]) == (0, 0)
    assert parley(lake.home, "sql", "select * from quarantine", "--json").json() == []


def test_each_form_of_import_says_what_it_takes(lake: SmallLake) -> None:
    with_model = parley(lake.home, "import", "ratings", str(ratings(lake)), "--model", "m")
    assert (with_model.code, "--model and --out have no effect" in with_model.err) == (2, True)
    without = parley(lake.home, "import", "codeif", str(lake.home))
    assert (without.code, "--model NAME --out FILE" in without.err) == (2, True)
    told = parley(lake.home, "import", "--help").out
    assert "parley import ratings FILE.csv" in told
    assert "parley import BENCHMARK DIR" in told
