"""One run's cost is the same in all places: its end, `report`, `@work`, `@costs`, the site, and
estimates of the next run.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.site.pages import number
from tests.fixtures import vllm_program
from tests.flows.parley_command import SAMPLE, ask, parley
from tests.tasks.checkpoints.weight_folders import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
N_ANSWERS = 38
"""Of the sample's eight dialogues."""
NAMES = ("calls", "input_tokens", "output_tokens", "usd", "usd_hourly")
Cost = tuple[float | None, ...]
PRICES: dict[str, dict[str, float]] = {
    "tokens": {"usd_per_million_input": 1000.0, "usd_per_million_output": 4000.0},
    "hours": {"usd_per_hour": 360.0},
    "both": {
        "usd_per_million_input": 1000.0,
        "usd_per_million_output": 4000.0,
        "usd_per_hour": 360.0,
    },
}


def cost(row: dict[str, Any], calls: str = "calls") -> Cost:
    return tuple(row[calls if name == "calls" else name] for name in NAMES)


def about(found: Cost) -> tuple[Any, ...]:
    """The same to six digits; what is unknown is unknown in both."""
    return tuple(None if value is None else pytest.approx(value) for value in found)


def flags(prices: dict[str, float]) -> tuple[object, ...]:
    by_token = (
        ("--price", prices["usd_per_million_input"], prices["usd_per_million_output"])
        if len(prices) > 1
        else ()
    )
    return (
        *by_token,
        *(("--usd-per-hour", prices["usd_per_hour"]) if "usd_per_hour" in prices else ()),
    )


@pytest.mark.parametrize("priced_by", PRICES)
def test_all_places_agree(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, priced_by: str
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS")  # servers on loopback are for workers of this machine
    home, prices, program = tmp_path / "home", PRICES[priced_by], vllm_program.install(tmp_path)
    first = checkpoint(tmp_path / "ckpts" / "checkpoint-1")
    asked = (
        *SAMPLE,
        "--model",
        f"vllm:{first}",
        "--serve",
        f"command={program}",
        *flags(prices),
        "--json",
    )
    unplayed = parley(home, *asked, "--dry-run").json()
    assert unplayed["usd_hourly"] is None
    assert bool(unplayed["hours_unknown"]) == ("usd_per_hour" in prices), "unknown, and not 0.00"

    done = parley(home, *asked).json()
    paid = cost(done, "model_calls")
    assert paid[0] == N_ANSWERS
    assert (paid[3] is None, paid[4] is None) == (priced_by == "hours", priced_by == "tokens")
    assert all(value is None or value > 0 for value in paid)
    run = done["run_id"]

    (reported,) = parley(home, "report", "--json").json()["runs"]
    (work,) = ask(home, f"select * from night_work where run_id = '{run}'")
    (costs,) = ask(home, f"select * from costs where run_id = '{run}'")
    (saved_work,) = [row for row in ask(home, "@work") if row["night_id"] == done["night_id"]]
    for place in (
        cost(reported, "model_calls"),
        cost(work, "model_calls"),
        cost(saved_work, "model_calls"),
        cost(costs),
    ):
        assert place == about(paid)
    assert parley(home, "site", "--out", tmp_path / "site").code == 0
    for page in (f"runs/{run[:12]}.html", f"nights/{done['night_id']}.html"):
        text = (tmp_path / "site" / page).read_text(encoding="utf-8")
        assert all(
            f"<td>{number(value)}</td>" in text for value in paid[3:] if value is not None
        ), page
    told = parley(home, "report").out
    assert all(
        f"{paid[at]:.6g} USD{more}" in told
        for at, more in ((3, ""), (4, " for server hours"))
        if paid[at] is not None
    )

    again = parley(home, *asked, "--seed", "1", "--dry-run").json()
    assert (again["learned_from"], again["hours_unknown"]) == ("model", [])
    assert cost(again) == about(paid)
    finished = parley(home, *asked, "--dry-run").json()
    assert cost(finished)[:3] == (0, 0, 0)
    assert not any(cost(finished)[3:]), "nothing is left to be paid for"

    checkpoint(tmp_path / "ckpts" / "checkpoint-2", weights=b"other")
    config = tmp_path / "night.yaml"
    source = {
        "directory": str(tmp_path / "ckpts"),
        "ask": {"serve": {"command": program}, **prices},
    }
    config.write_text(
        yaml.safe_dump(
            {
                "benchmarks": [{"name": "codeif.static", "dataset_version": "sample"}],
                "sources": [source],
            }
        )
    )
    rows = json.loads(parley(home, "checkpoints", "--config", config, "--json").out)
    (pending,) = [row for row in rows if row["path"].endswith("checkpoint-2")]
    assert pending["hours_unknown"] == []
    assert cost(pending) == about(paid)
