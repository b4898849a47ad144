"""The mart of costs: tokens at the price of the model that the run names."""

from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.conftest import Marts
from tests.warehouse.small_lake import ALPHA, SmallLake
from tests.warehouse.small_run import INSTRUCTIONS, Run
from warehouse.connect import query
from warehouse.publication.publish import publish


def table(home: Path, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
    return query(home, sql, parameters or None)[1]


COSTS = (
    "select role, role_model, calls, n_turns, n_reused, input_tokens, output_tokens, "
    "n_unknown_tokens, usd from costs"
)


def test_costs_are_tokens_times_price(published: SmallLake) -> None:
    """13 answers of 100 + 10 tokens at 2 and 10 USD a million: 13 x 300 millionths.

    One of them took three calls.
    """
    [row] = table(published.home, COSTS + " where run_id = $run", run=published.alpha_2.run_id)
    assert row == ("subject", "openai:alpha", 15, 13, 0, 1300, 130, 0, pytest.approx(0.0039))


def test_costs_count_answers_that_another_run_paid_for(published: SmallLake) -> None:
    [row] = table(published.home, COSTS + " where run_id = $run", run=published.alpha_1.run_id)
    assert row == ("subject", "openai:alpha", 9, 7, 7, 700, 70, 0, pytest.approx(0.0021))


@pytest.mark.slow
def test_unknown_tokens_and_prices_are_null_not_zero(
    published: SmallLake, codeif_marts: Marts
) -> None:
    [row] = table(published.home, COSTS + " where run_id = $run", run=published.beta.run_id)
    assert row == ("subject", "recorded:beta", 0, 7, 0, None, None, 7, None)
    published.write_models(alpha_input=None)
    report = publish(published.home, marts=codeif_marts)
    assert report.n_runs_loaded == 2
    assert table(
        published.home, "select usd from costs where model = $model", model=ALPHA.label
    ) == [(None,), (None,)]


@pytest.mark.slow
def test_an_agents_own_message_is_no_uncounted_answer(
    published: SmallLake, codeif_marts: Marts
) -> None:
    """It made no request: the run's cost is that of the answers."""
    fresh = Run(published.home, ALPHA.model_copy(update={"revision": "agent"}), samples=1)
    published.write_simple(fresh)
    first, *others = (fresh.episode(problem, 0) for problem in INSTRUCTIONS)
    own = {"n_calls": 0, "input_tokens": None, "output_tokens": None}
    steps = tuple(
        step.model_copy(update=own) if n == 1 else step for n, step in enumerate(first.steps)
    )
    fresh.write("episodes", [first.model_copy(update={"steps": steps}), *others])
    published.write_model(fresh.subject, 2.0, 10.0)
    publish(published.home, marts=codeif_marts)
    [row] = table(published.home, COSTS + " where run_id = $run", run=fresh.run_id)
    assert row == ("subject", "openai:alpha", 6, 7, 0, 600, 60, 0, pytest.approx(0.0018))


@pytest.mark.slow
def test_costs_take_the_price_of_the_runs_own_identity(
    lake: SmallLake, codeif_marts: Marts
) -> None:
    later = ALPHA.model_copy(update={"revision": "unpinned-2026-01-03"})
    unpriced = ALPHA.model_copy(update={"weights_digest": "c" * 32})
    runs = [Run(lake.home, identity, samples=1) for identity in (later, unpriced)]
    for run in runs:
        lake.write_simple(run)
    lake.write_model(later, 4.0, 20.0)
    lake.write_model(unpriced, None, None)
    publish(lake.home, marts=codeif_marts)
    found = dict(
        table(lake.home, "select run_id, usd from costs where model = $model", model=ALPHA.label)
    )
    assert found == {
        lake.alpha_2.run_id: pytest.approx(0.0039),
        lake.alpha_1.run_id: pytest.approx(0.0021),
        runs[0].run_id: pytest.approx(0.0042),
        runs[1].run_id: None,
    }
    assert table(
        lake.home, "select count(*) from models where model = $model", model=ALPHA.label
    ) == [(3,)]
    lake.write_model(unpriced, 1.0, None)
    lake.write_model(later, 8.0, 40.0)
    publish(lake.home, marts=codeif_marts)
    found |= {runs[0].run_id: pytest.approx(0.0084)}
    assert (
        dict(
            table(
                lake.home, "select run_id, usd from costs where model = $model", model=ALPHA.label
            )
        )
        == found
    )
