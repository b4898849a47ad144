"""A budget that falls back to a subsample: the same tasks for every model and in the next night, and marked where shown."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.model_server import model_server
from tests.flows.parley_command import ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
N_TASKS = 8


def test_a_subsample_is_the_same_for_every_model_and_in_two_nights(standing_home: Path, tmp_path: Path) -> None:
    home, config = tmp_path / "home", tmp_path / "night.yaml"
    with model_server(models=("first", "second"), max_seconds=500) as server:
        models = [
            {"spec": f"openai:{name}@{server.base_url}", "revision": "1", "usd_per_million_input": 1, "usd_per_million_output": 1}
            for name in server.models
        ]
        benchmark = {"name": "codeif.static", "dataset_version": "sample"}
        settings = {"models": models, "benchmarks": [benchmark], "workers": 1}

        def nightly(*more: str, **changed: object) -> list[dict[str, Any]]:
            config.write_text(yaml.safe_dump({**settings, **changed}))
            done = parley(home, "nightly", "--config", config, "--json", *more)
            assert done.code == 0, done.err
            return [json.loads(line) for line in done.out.splitlines()]

        whole = sum(line["usd"] for line in nightly("--dry-run"))
        budget = {"usd": whole / 2, "then": "subsample", "seed": 3}
        dry = parley(home, "nightly", "--config", config, "--dry-run", "--budget", f"usd={whole / 2},then=subsample,seed=3")
        assert dry.code == 0, dry.err
        assert "the same for every model: codeif.static" in dry.out
        lines = nightly("--dry-run", budget=budget)
        assert sum(line["usd"] for line in lines) <= whole / 2
        assert server.bodies == []

        nightly(budget=budget)
        chosen = "select model, list(distinct problem_id order by problem_id) as tasks from turns group by model order by model"
        first, second = ask(home, chosen)
        assert first["tasks"] == second["tasks"]
        n = len(first["tasks"])
        assert 1 <= n < N_TASKS
        n_asked = len(server.bodies)
        nightly(budget=budget)
        assert (ask(home, chosen), len(server.bodies)) == ([first, second], n_asked)
        for table in ("runs", "leaderboard", "costs", "codeif_turns", "codeif_strategies", "pool_dataset"):
            assert ask(home, f"select distinct task_share from {table}") == [{"task_share": n / N_TASKS}], table
        assert ask(home, "select distinct subsample_seed from runs") == [{"subsample_seed": 3}]

        nightly("--budget", "usd=1000", benchmarks=[{**benchmark, "models": [models[0]["spec"]]}])
        shares = ask(home, "select distinct model, task_share from codeif_turns order by model")
        assert shares == [
            {"model": "openai:first", "task_share": None},
            {"model": "openai:second", "task_share": n / N_TASKS},
        ]
        assert server.stats()["repeated"] == len(server.bodies) - len(server.prompts)
        told = parley(home, "compare", "openai:first", "openai:second")
        assert "also differ in tasks" in " ".join(told.out.split()), told.out + told.err
