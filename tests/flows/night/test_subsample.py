"""A budget that falls back to a subsample: the same tasks for every model and in the next night,
and marked where shown.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.model_server import model_server
from tests.flows.parley_command import SAMPLE, ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
N_TASKS = 8


def test_a_subsample_is_the_same_for_every_model_and_in_two_nights(
    standing_home: Path, tmp_path: Path
) -> None:
    home, config = tmp_path / "home", tmp_path / "night.yaml"
    with model_server(models=("first", "second"), max_seconds=500) as server:
        models = [
            {
                "spec": f"openai:{name}@{server.base_url}",
                "revision": "1",
                "usd_per_million_input": 1,
                "usd_per_million_output": 1,
            }
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
        dry = parley(
            home,
            "nightly",
            "--config",
            config,
            "--dry-run",
            "--budget",
            f"usd={whole / 2},then=subsample,seed=3",
        )
        assert dry.code == 0, dry.err
        assert "the same for every model: codeif.static" in dry.out
        lines = nightly("--dry-run", budget=budget)
        assert sum(line["usd"] for line in lines) <= whole / 2
        assert server.bodies == []

        nightly(budget=budget)
        chosen = (
            "select model, list(distinct problem_id order by problem_id) as tasks from turns "
            "group by model order by model"
        )
        first, second = ask(home, chosen)
        assert first["tasks"] == second["tasks"]
        n = len(first["tasks"])
        assert 1 <= n < N_TASKS
        n_asked = len(server.bodies)
        nightly(budget=budget)
        assert (ask(home, chosen), len(server.bodies)) == ([first, second], n_asked)
        for table in (
            "runs",
            "leaderboard",
            "costs",
            "codeif_turns",
            "codeif_strategies",
            "pool_dataset",
        ):
            assert ask(home, f"select distinct task_share from {table}") == [
                {"task_share": n / N_TASKS}
            ], table
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


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("standing_home")
def test_long_answers_are_learned_and_a_first_choice_stays(tmp_path: Path) -> None:
    """The answers have 900 tokens, where 300 are assumed: the first night ends at its cap, that of
    the next model does not.
    """
    home = tmp_path / "home"
    with model_server(models=("first", "second"), max_seconds=1500) as server:
        server.answer = lambda messages: (
            "```python\n" + "# nothing that was asked for\n" * (900 * 4 // 29) + "```"
        )

        def run(name: str, *more: str) -> tuple[int, dict[str, Any]]:
            model = f"openai:{name}@{server.base_url}"
            done = parley(home, *SAMPLE, "--model", model, "--revision", "1", "--json", *more)
            assert done.code in (0, 4), done.err
            return done.code, json.loads(done.out)

        def n_tasks(name: str) -> int:
            (row,) = ask(
                home,
                (
                    f"select round(task_share * {N_TASKS}) as n from runs where model = "
                    f"'openai:{name}'"
                ),
            )
            return int(row["n"])

        _, dry = run("first", "--dry-run")
        assert dry["learned_from"] is None
        cap = int((dry["input_tokens"] + dry["output_tokens"]) * 0.8)
        budget = ("--budget", f"tokens={cap},then=subsample")
        code, stopped = run("first", *budget)
        assert code == 4
        assert stopped["budget"]["tokens"]["spent"] > cap
        n_first = n_tasks("first")
        assert n_first > 1
        for _ in range(8):
            code, line = run("first", *budget)
            assert (line["run_id"], n_tasks("first")) == (stopped["run_id"], n_first), (
                "its answers would be paid for and of no use"
            )
            if code == 0:
                break
        assert code == 0

        code, second = run("second", *budget)
        assert code == 0
        assert 0 < second["budget"]["tokens"]["spent"] <= cap
        assert 1 <= n_tasks("second") < n_first
        _, dry = run("second", "--dry-run")
        assert dry["learned_from"] == "model"
        n_asked = len(server.bodies)
        code, _ = run("second", *budget)
        assert (code, len(server.bodies)) == (0, n_asked)
