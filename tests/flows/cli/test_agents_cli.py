"""An agent as the subject of a benchmark that knows nothing of it: played, exported, and
played again as a recording.
"""

import json
from pathlib import Path

import pytest

from tests.fixtures.model_server import Messages, model_server
from tests.flows.parley_command import SAMPLE, ask, parley

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("bubblewrap")]
RUN = (*SAMPLE, "--limit", "2", "--agent", "chain_of_thought", "--json")


def thought_or_answer(messages: Messages) -> str:
    """Reasoning where it is asked for; then an answer that shows how long the conversation was."""
    if "Think before you answer" in messages[-1]["content"]:
        return f"thought about {len(messages)} messages"
    return f"```python\ndef solve():\n    return {len(messages)}\n```"


def test_chain_of_thought_on_the_sample(standing_home: Path, tmp_path: Path) -> None:
    with model_server(answer=thought_or_answer) as server:
        model = f"openai:mock@{server.base_url}"
        [estimate] = [
            json.loads(
                parley(standing_home, *RUN, "--model", model, "--revision", "1", "--dry-run").out
            )
        ]
        line = parley(standing_home, *RUN, "--model", model, "--revision", "1").json()
    n_turns = ask(standing_home, "SELECT count(*) AS n FROM turns WHERE role = 'assistant'")[0]["n"]
    assert line["model_calls"] == estimate["calls"] == len(server.bodies) == 2 * n_turns
    assert (line["model"], line["owed"], line["published"]) == (
        "openai:mock+chain_of_thought",
        0,
        True,
    )
    kinds = (
        "SELECT kind, count(*) AS n FROM steps WHERE role = 'assistant' GROUP BY kind ORDER BY kind"
    )
    assert ask(standing_home, kinds) == [
        {"kind": "artifact", "n": n_turns},
        {"kind": "message", "n": n_turns},
    ]
    assert ask(standing_home, "SELECT count(*) AS n FROM turns WHERE content LIKE 'thought%'") == [
        {"n": 0}
    ]
    assert ask(standing_home, "SELECT calls, n_turns FROM costs") == [
        {"calls": 2 * n_turns, "n_turns": n_turns}
    ]
    recording = tmp_path / "thoughts.jsonl"
    assert (
        parley(
            standing_home, "export", "recording", "--run", line["run_id"], "--out", recording
        ).code
        == 0
    )
    again = parley(standing_home, *RUN, "--model", f"recorded:{recording}").json()
    assert (again["model"], again["owed"], again["model_calls"]) == (
        "recorded:thoughts+chain_of_thought",
        0,
        0,
    )
    said = (
        "SELECT model, problem_id, turn, role, kind, content FROM steps ORDER BY problem_id, "
        "position"
    )
    by_model: dict[str, list[dict[str, object]]] = {}
    for row in ask(standing_home, said):
        by_model.setdefault(row.pop("model"), []).append(row)
    played, replayed = by_model.values()
    assert played == replayed
    alone = parley(standing_home, *RUN[:-3], "--json", "--model", f"recorded:{recording}").json()
    assert alone["run_id"] != again["run_id"], "without its agent it is another run"
