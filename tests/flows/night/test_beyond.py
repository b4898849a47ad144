"""What rests on a shared folder is refused where driver and workers share an object store alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.night.preflight.checks import (
    require_budget_is_counted,
    require_trees_are_met,
    store_secrets,
)
from schemas.errors import ConfigError
from schemas.night.budget import Budget
from tasks.storage.home import Home

URL = "s3://bucket/lake"


def plan(home: Home, agent: str | None) -> Any:
    return SimpleNamespace(
        home=home, spec=SimpleNamespace(agent=agent and SimpleNamespace(name=agent))
    )


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_DASK_ADDRESS", "tcp://head:8786")


@pytest.mark.usefixtures("elsewhere")
def test_budgets_and_agents_are_refused_with_the_remedy(tmp_path: Path) -> None:
    home = Home.at(tmp_path, URL)
    with pytest.raises(
        ConfigError, match=r"a budget needs a folder.*PARLEY_LAKE=s3://bucket/lake.*set PARLEY_HOME"
    ):
        require_budget_is_counted(home, Budget(usd=1.0))
    with pytest.raises(
        ConfigError,
        match=r"agent 'bash' needs a working folder.*PARLEY_DASK_ADDRESS=tcp://head:8786",
    ):
        require_trees_are_met(plan(home, "bash"))
    require_budget_is_counted(home, None)
    require_trees_are_met(plan(home, None))


@pytest.mark.usefixtures("elsewhere")
def test_a_shared_folder_has_them(tmp_path: Path) -> None:
    require_budget_is_counted(Home.at(tmp_path), Budget(usd=1.0))
    require_trees_are_met(plan(Home.at(tmp_path), "bash"))


def test_so_have_workers_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS", raising=False)
    require_budget_is_counted(Home.at(tmp_path, URL), Budget(usd=1.0))
    require_trees_are_met(plan(Home.at(tmp_path, URL), "bash"))


def test_workers_of_this_machine_keep_the_keys_of_the_store_alone(tmp_path: Path) -> None:
    environ = {"AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "eu", "OTHER_API_KEY": "y"}
    assert store_secrets(Home.at(tmp_path, URL), environ) == ("AWS_SECRET_ACCESS_KEY",)
    assert store_secrets(Home.at(tmp_path), environ) == ()
