"""A run that stops asking once its comparison with a baseline is decided, and is completed
later.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.bench.synthetic import write_tasks
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.parley_command import ask, parley
from warehouse.comparison.sequential import confidence_interval

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
N_TASKS, IN_FLIGHT = 60, 4


def run(data: Path, model: str) -> tuple[str, ...]:
    named = (
        ("--model", model, "--revision", "1") if model.startswith("openai:") else ("--model", model)
    )
    return (
        "run",
        "codeif.static",
        "--data",
        str(data),
        "--option",
        "extraction=markdown",
        *named,
        "--workers",
        "1",
        "--concurrency",
        str(IN_FLIGHT),
    )


def model_of(server: ModelServer) -> str:
    return f"openai:mock@{server.base_url}"


def tables_of(home: Path, model: str) -> object:
    turns = ask(
        home,
        f"select problem_id, turn, role, content from turns where model = '{model}' order by all",
    )
    board = ask(
        home,
        (
            "select metric, mean, ci_low, ci_high, n, n_problems from leaderboard where model = "
            f"'{model}' order by all"
        ),
    )
    shares = ask(home, f"select task_share, n_episodes from runs where model = '{model}'")
    return turns, board, shares, ask(home, "select * from decisions")


def test_a_run_stops_once_it_is_worse_and_is_completed_later(
    standing_home: Path, tmp_path: Path
) -> None:
    home, data = standing_home, write_tasks(tmp_path / "data", N_TASKS, turns=2)
    gold = parley(home, *run(data, "control:gold"), "--json").json()
    with model_server(latency_s=0.3) as server:
        asked = (*run(data, model_of(server)), "--decide", "baseline=control:gold,margin=0.05")
        line = parley(home, *asked, "--json").json()
        assert (line["owed"], line["n_infra"], line["published"]) == (0, 0, True)
        (row,) = ask(home, "select * from decisions")
        n_answers, n_played = len(server.bodies), line["episodes"]
        assert (row["decision"], row["baseline_run_id"], row["metric"]) == (
            "worse",
            gold["run_id"],
            "instruction_accuracy",
        )
        assert row["n_asked"] <= n_played < N_TASKS - IN_FLIGHT
        assert (row["n_total"], row["n_left_out"], row["high"] < 0) == (N_TASKS, 0, True)
        assert row["task_share"] == n_played / N_TASKS
        assert row["saved_calls"] == pytest.approx(2 * (N_TASKS - n_played))
        ends = [(point["low"], point["high"]) for point in row["sequence"]]
        assert ends == sorted(ends, key=lambda pair: pair[1] - pair[0], reverse=True)

        again = parley(home, *asked, "--json").json()
        assert (again["run_id"], again["episodes"], again["model_calls"]) == (
            line["run_id"],
            n_played,
            0,
        )
        assert len(server.bodies) == n_answers

        whole = parley(home, *run(data, model_of(server)), "--decide", "off", "--json").json()
        assert (whole["run_id"], whole["episodes"]) == (line["run_id"], N_TASKS)
        assert len(server.bodies) == 2 * N_TASKS, "an answer was paid for twice"
        completed = tables_of(home, "openai:mock")
        other_home = tmp_path / "other"
        parley(other_home, *run(data, model_of(server)), "--json").json()
    assert completed == tables_of(other_home, "openai:mock")


def test_several_metrics_share_alpha_and_the_run_stops_once_all_are_decided(
    standing_home: Path, tmp_path: Path
) -> None:
    home, data = standing_home, write_tasks(tmp_path / "data", N_TASKS, turns=2)
    parley(home, *run(data, "control:gold"), "--json").json()
    asked = "baseline=control:gold,margin=0.05,alpha=0.1,metric=instruction_accuracy,metric=conversation_accuracy_fraction"
    with model_server(latency_s=0.3) as server:
        other = f"openai:other@{server.base_url}"
        server.models = ("other",)
        line = parley(home, *run(data, other), "--decide", asked, "--json").json()
    rows = ask(home, "select * from decisions where model = 'openai:other' order by metric")
    assert [row["metric"] for row in rows] == [
        "conversation_accuracy_fraction",
        "instruction_accuracy",
    ]
    for row in rows:
        assert (row["decision"], row["n_metrics"], row["alpha"], row["mean_difference"]) == (
            "worse",
            2,
            0.1,
            -1,
        )
        assert row["n_asked"] == line["episodes"] < N_TASKS - IN_FLIGHT
        shared = confidence_interval(-np.ones(row["n_asked"]), N_TASKS, 0.1 / 2)
        assert (row["low"], row["high"]) == pytest.approx(shared), (
            "the interval is not at half of alpha"
        )
    board = (
        "select metric, ci_low, ci_high, interval_kind from leaderboard where model = "
        "'openai:other'"
    )
    for row in ask(home, board):
        is_decided = row["metric"] in {one["metric"] for one in rows}
        assert (row["interval_kind"], row["ci_low"] is None) == (
            "sequence" if is_decided else None,
            not is_decided,
        )
