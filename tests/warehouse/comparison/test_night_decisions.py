"""The decisions of a night that hold together, as the table `decisions` marks them."""

from pathlib import Path

import pytest

from schemas.night.decision import Decision, DecisionName
from tests.warehouse.comparison.checkpoints import checkpoint, empty_lake, passing, write
from tests.warehouse.small_run import IA
from warehouse.connect import query
from warehouse.publication.publish import publish

pytestmark = pytest.mark.slow


def decided(
    home: Path,
    name: str,
    night: int,
    decision: DecisionName | None,
    e_value: float,
    alpha: float = 0.05,
) -> None:
    """Write a run that was decided early, and its decision."""
    run = checkpoint(home, name)
    write(run, passing(10), night)
    fields = {
        "margin": 0.03,
        "alpha": alpha,
        "n_metrics": 1,
        "n_asked": 10,
        "n_total": 20,
        "n_left_out": 0,
        "e_value": e_value,
    }
    ends = {"low": -1, "high": 1, "mean_low": 0, "mean_high": 1}
    named = {
        "run_id": run.run_id,
        "benchmark": "codeif",
        "model": run.subject.label,
        "metric": IA,
        "decision": decision,
    }
    row = Decision.model_validate(
        {**named, **fields, **ends, "baseline_run_id": "b", "baseline_model": "old"}
    )
    run.write("decisions", [row])


def marks(home: Path) -> dict[str, bool | None]:
    publish(home, directions={IA: "higher"})
    return {
        model.rpartition("/")[2]: mark
        for model, mark in query(home, "select model, is_night_wide from decisions")[1]
    }


def test_the_decisions_of_a_night_that_hold_together_are_marked(tmp_path: Path) -> None:
    """At alpha 0.05, halved: of four, one needs 160, two need 80, three 54.

    Runs that claim nothing count among the four.
    """
    home = empty_lake(tmp_path / "home")
    decided(home, "alone", 2, "better", 1e300)
    decided(home, "first", 1, "better", 159)
    assert marks(home) == {"alone": None, "first": None}
    decided(home, "second", 1, "worse", 79)
    decided(home, "third", 1, "all_asked", 0)
    decided(home, "fourth", 1, None, 0)
    assert marks(home) == {
        "alone": None,
        "first": False,
        "second": False,
        "third": None,
        "fourth": None,
    }
    decided(home, "second", 1, "worse", 80)
    assert marks(home) == {
        "alone": None,
        "first": True,
        "second": True,
        "third": None,
        "fourth": None,
    }
    decided(home, "third", 1, "equivalent", 52, alpha=0.1)
    assert marks(home) == {
        "alone": None,
        "first": True,
        "second": True,
        "third": False,
        "fourth": None,
    }
