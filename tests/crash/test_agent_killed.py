"""An agent of a hundred steps in a repository is killed at step 60: it goes on at 61 in the same tree, and runs no call twice."""

import json
from pathlib import Path

import pytest

from tests.crash.night import Kill, Night, counting_server
from tests.fixtures.model_server import Messages, Reply
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
N_STEPS, KILLED_AT = 100, 60


def count_on(messages: Messages) -> Reply:
    """Step n writes the n-th line of a file and says how many there are; the last step ends the work."""
    number = sum(bool(message.get("tool_calls")) for message in messages) + 1
    if number == N_STEPS:
        return Reply(content="", calls=(("finish", json.dumps({"message": "Counted."})),), finish_reason="tool_calls")
    command = f'cd /testbed/ledger; export LAST={number}; echo "$LAST" >> steps.txt; cat steps.txt | wc -l'
    return Reply(content="", calls=(("bash", json.dumps({"command": command})),), finish_reason="tool_calls")


def test_an_agent_killed_at_step_60_goes_on_at_step_61(tmp_path: Path, server_url: str) -> None:
    with counting_server(max_seconds=500) as counter:
        counter.server.answer = count_on
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url})
        model = f"openai:mock@{counter.server.base_url}"
        run = (
            "run",
            "dialogue_swebench.first_query",
            "--dataset-version",
            "sample",
            "--limit",
            "1",
            "--model",
            model,
            "--revision",
            "1",
        )
        run = (*run, "--agent", "autonomous", "--workers", "1", "--json")
        assert night.run([Kill("between turns", "driver", KILLED_AT)], run).code == -9
        before = counter.calls()
        line = night.run(arguments=run).line()
    assert (line["status"], line["owed"], line["n_unscored"]) == ("finished", 0, 0)
    assert before == KILLED_AT
    assert counter.calls() == N_STEPS, "no answer was asked for twice"
    ran = query(night.home, "select content from steps where kind = 'observation' order by all")[1]
    counted = sorted(int(content.split("\n")[0]) for (content,) in ran if content[0].isdigit())
    assert counted == list(range(1, N_STEPS)), "each command found the lines of those before it, once each"
    ((patch,),) = query(night.home, "select content from steps where kind = 'artifact'")[1]
    added = [row[1:] for row in patch.splitlines() if row.startswith("+") and not row.startswith("+++")]
    assert added == [str(n) for n in range(1, N_STEPS)]
    scores = dict(query(night.home, "select metric, value from scores")[1])
    assert (scores["agent_steps"], scores["resolved"]) == (N_STEPS, 0.0)
