"""Memory agents in a run: what they ask is kept, counted and shown beside the model alone (the
paper's Table 3).
"""

import csv
from pathlib import Path

import pytest

from tests.fixtures.embedding_server import embedding_server
from tests.fixtures.model_server import model_server
from tests.flows.parley_command import ask, parley
from tests.tasks.dialogue.agents.remembered_talk import MEMORIES, reply

pytestmark = pytest.mark.slow
N_DIALOGS, N_UNITS = 4, 3
"""Of LoCoMo's sample: questions, and the rounds of the talk before them."""
OF_TALK = {"": 0, "hipporag": N_UNITS, "a-mem": 2 * N_UNITS - 1, "memoryos": 0}
"""Of the talk, which all four have before them: a unit is asked about once or, with links, twice;
MemoryOS asks of nothing that
it still has in full."""
OWN = {"": 1, "hipporag": 2, "a-mem": 1, "memoryos": 1}
"""Of a dialogue: its answer, and where facts are chosen for it the choice."""
CALLS = {agent: OF_TALK[agent] + N_DIALOGS * OWN[agent] for agent in OWN}


@pytest.mark.long
def test_a_run_with_each_agent_is_counted_and_compared_with_the_model_alone(
    standing_home: Path, tmp_path: Path
) -> None:
    runs: dict[str, str] = {}
    with (
        embedding_server(dim=16) as embedder,
        model_server(answer=lambda messages: reply(messages[-1]["content"])) as server,
    ):
        model = f"openai:mock@{server.base_url}"
        asked = (
            "unidial.locomo",
            "--dataset-version",
            "sample",
            "--model",
            model,
            "--revision",
            "1",
            "--workers",
            "1",
            "--json",
        )
        refused = parley(standing_home, "run", *asked, "--agent", "hipporag")
        assert refused.code == 2
        assert "agent hipporag compares texts by their vectors" in refused.err
        for agent, calls in CALLS.items():
            vectors = (
                "--embedder",
                f"openai:mock-embedder@{embedder.base_url}",
                "--embedder-revision",
                "1",
            )
            given = ("--agent", agent, *vectors) if agent else ()
            estimate = parley(standing_home, "run", *asked, *given, "--dry-run").json()
            line = parley(standing_home, "run", *asked, *given).json()
            assert line["model_calls"] <= estimate["calls"] <= 3 * N_DIALOGS + 2 * (N_UNITS + 1)
            assert (line["model_calls"], line["n_unscored"]) == (calls, 0)
            runs[agent] = line["run_id"]
        again = parley(standing_home, "run", *asked, *given).json()
        assert again["model_calls"] == 0
    kinds = "SELECT run_id, count(*) AS n FROM steps WHERE kind = 'artifact' GROUP BY run_id"
    artifacts = {row["run_id"]: row["n"] for row in ask(standing_home, kinds)}
    assert {agent: artifacts.get(run, 0) for agent, run in runs.items()} == {
        a: n - N_DIALOGS for a, n in CALLS.items()
    }
    paid = {
        row["run_id"]: row["calls"]
        for row in ask(standing_home, "SELECT run_id, calls FROM costs WHERE role = 'subject'")
    }
    assert {agent: paid[run] for agent, run in runs.items()} == CALLS, (
        "the memory of the talk costs once"
    )
    where = "turn_stat = 'mean' AND dialog_stat = 'min' AND dataset_level = 'dialog'"
    rows = ask(
        standing_home, f"SELECT agent, base_model, mean, count FROM unidial_agents WHERE {where}"
    )
    assert {row["agent"] or "" for row in rows} == set(CALLS)
    assert {(row["base_model"], row["count"]) for row in rows} == {("openai:mock", N_DIALOGS)}
    out = tmp_path / "table3.csv"
    assert parley(standing_home, "export", "unidial-agents", "--out", out).code == 0
    means = {row["agent"] or "alone": row["mean"] for row in rows}
    with out.open(encoding="utf-8") as file:
        found = [
            r
            for r in csv.DictReader(file)
            if (r["turn_stat"], r["dialog_stat"], r["dataset_level"]) == ("mean", "min", "dialog")
        ]
    [row] = found
    assert (row["dataset"], row["model"]) == ("locomo", "openai:mock")
    for agent in MEMORIES:
        assert float(row[agent]) == pytest.approx(means[agent])
        assert float(row[f"{agent} - alone"]) == pytest.approx(means[agent] - means["alone"])
