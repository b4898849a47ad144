"""An agent of a hundred steps in a repository is killed at step 60: it goes on at 61 in the same tree, and runs no call twice.

So does the OpenHands SDK's, of ten steps, where `PARLEY_OPENHANDS` names a Python that has it.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.night import Kill, Night, counting_server
from tests.fixtures.model_server import Messages, Reply
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
OPENHANDS = os.environ.get("PARLEY_OPENHANDS", "")
needs_openhands = pytest.mark.skipif(not OPENHANDS, reason="PARLEY_OPENHANDS names no Python with openhands-sdk")


def counting(n_steps: int) -> Callable[[Messages], Reply]:
    """Step n writes the n-th line of a file and says how many there are; the last step ends the work."""

    def count_on(messages: Messages) -> Reply:
        number = sum(bool(message.get("tool_calls")) for message in messages) + 1
        if number == n_steps:
            return Reply(content="", calls=(("finish", json.dumps({"message": "Counted."})),), finish_reason="tool_calls")
        command = f'cd /testbed/ledger; export LAST={number}; echo "$LAST" >> steps.txt; cat steps.txt | wc -l'
        return Reply(content="", calls=(("bash", json.dumps({"command": command})),), finish_reason="tool_calls")

    return count_on


@pytest.mark.parametrize(
    ("agent", "n_steps", "killed_at"), [("autonomous", 100, 60), pytest.param("openhands", 10, 6, marks=needs_openhands)]
)
def test_a_killed_agent_goes_on_at_the_next_step(
    tmp_path: Path, server_url: str, agent: str, n_steps: int, killed_at: int
) -> None:
    with counting_server(max_seconds=500) as counter:
        counter.server.answer = counting(n_steps)
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url, "PARLEY_OPENHANDS": OPENHANDS})
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
        run = (*run, "--agent", agent, "--workers", "1", "--json")
        assert night.run([Kill("between turns", "driver", killed_at)], run).code == -9
        before = counter.calls()
        line = night.run(arguments=run).line()
    assert (line["status"], line["owed"], line["n_unscored"]) == ("finished", 0, 0)
    assert before == killed_at
    assert counter.calls() == n_steps, "no answer was asked for twice"
    ran = query(night.home, "select content from steps where kind = 'observation' order by all")[1]
    counted = sorted(int(content.split("\n")[0]) for (content,) in ran if content[:1].isdigit())
    assert counted == list(range(1, n_steps)), "each command found the lines of those before it, once each"
    ((patch,),) = query(night.home, "select content from steps where kind = 'artifact'")[1]
    added = [row[1:] for row in patch.splitlines() if row.startswith("+") and not row.startswith("+++")]
    assert added == [str(n) for n in range(1, n_steps)]
    scores = dict(query(night.home, "select metric, value from scores")[1])
    assert (scores["agent_steps"], scores["resolved"]) == (n_steps, 0.0)
