"""An agent of a hundred steps in a repository is killed at step 60: it goes on at 61 in the same
tree, and runs no call twice.

Agents of other projects, where they are installed, also talk with their user before the kill.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.night import Counter, Kill, Night, counting_server
from tests.fixtures.model_server import Messages, Reply
from tests.tasks.dialogue.agents.outside_scripts import needs
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
COMMAND = (
    'cd /testbed/ledger; export LAST={number}; echo "$LAST" >> steps.txt; cat steps.txt | wc -l'
)
FINISH = ("finish", json.dumps({"message": "Counted."}))
SUBMIT = ("bash", json.dumps({"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}))
ASK = ("message_user", json.dumps({"message": "How far shall I count?"}))
REPLY, REVIEW = "As far as you can.", '{"violations": []}'
SIMULATED = {"You play a person who uses": REPLY, "A person reports a software problem": REVIEW}
"""Beginning of a prompt of the simulated user -> its answer."""


def counting(
    n_steps: int, end: tuple[str, str] = FINISH, asks_at: int = 0
) -> Callable[[Messages], str | Reply]:
    """Step n writes the n-th line of a file and says how many there are; the last step ends the
    work, one may ask the user.
    """

    def count_on(messages: Messages) -> str | Reply:
        for beginning, answer in SIMULATED.items():
            if any(beginning in str(message["content"]) for message in messages[:2]):
                return answer
        number = sum(bool(message.get("tool_calls")) for message in messages) + 1
        call = ("bash", json.dumps({"command": COMMAND.format(number=number)}))
        call = {asks_at: ASK, n_steps: end}.get(number, call)
        return Reply(content="", calls=(call,), finish_reason="tool_calls")

    return count_on


def run_of(counter: Counter, agent: str, setting: str) -> tuple[str, ...]:
    """Return the command that plays one instance of the sample."""
    model = f"openai:mock@{counter.server.base_url}"
    run = ("run", f"dialogue_swebench.{setting}", "--dataset-version", "sample", "--limit", "1")
    run = (*run, "--model", model, "--revision", "1", "--agent", agent, "--workers", "1", "--json")
    return run if setting == "first_query" else (*run, "--simulator", model)


def lines_added(night: Night) -> list[str]:
    """Return the lines that the published patch adds."""
    patches = query(
        night.home,
        "select content from steps where kind = 'artifact' and content like 'diff --git%'",
    )[1]
    ((patch,),) = patches
    return [
        row[1:] for row in patch.splitlines() if row.startswith("+") and not row.startswith("+++")
    ]


def counts(night: Night) -> list[int]:
    """Return how many lines each command found, with its own."""
    ran = query(night.home, "select content from steps where kind = 'observation' order by all")[1]
    return sorted(int(content.split("\n")[0]) for (content,) in ran if content[:1].isdigit())


def test_a_killed_agent_goes_on_at_the_next_step(tmp_path: Path, server_url: str) -> None:
    n_steps, killed_at = 100, 60
    with counting_server(max_seconds=500) as counter:
        counter.server.answer = counting(n_steps)
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url})
        run = run_of(counter, "autonomous", "first_query")
        assert night.run([Kill("between turns", "driver", killed_at)], run).code == -9
        before = counter.calls()
        line = night.run(arguments=run).line()
    assert (line["status"], line["owed"], line["n_unscored"]) == ("finished", 0, 0)
    assert before == killed_at
    assert counter.calls() == n_steps, "no answer was asked for twice"
    assert counts(night) == list(range(1, n_steps)), (
        "each command found the lines of those before it, once each"
    )
    assert lines_added(night) == [str(n) for n in range(1, n_steps)]
    scores = dict(query(night.home, "select metric, value from scores")[1])
    assert (scores["agent_steps"], scores["resolved"]) == (n_steps, 0.0)


@pytest.mark.parametrize(
    ("agent", "end"),
    [
        pytest.param("mini-swe-agent", SUBMIT, marks=needs("mini-swe-agent")),
        pytest.param("openhands", FINISH, marks=needs("openhands")),
    ],
)
def test_a_killed_agent_of_another_project_goes_on_after_its_users_reply(
    tmp_path: Path, server_url: str, agent: str, end: tuple[str, str]
) -> None:
    n_steps, asks_at, killed_at = 8, 3, 7
    with counting_server(max_seconds=500) as counter:
        counter.server.answer = counting(n_steps, end, asks_at)
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url})
        run = run_of(counter, agent, "full")
        assert night.run([Kill("between turns", "driver", killed_at)], run).code == -9
        assert asks_at + len(SIMULATED) < counter.calls() < n_steps + len(SIMULATED), (
            "killed between reply and end"
        )
        line = night.run(arguments=run).line()
    assert (line["status"], line["owed"], line["n_unscored"]) == ("finished", 0, 0)
    assert counter.calls() == n_steps + len(SIMULATED), "no answer was asked for twice"
    assert set(counter.server.prompts.values()) == {1}
    counted = [n for n in range(1, n_steps) if n != asks_at]
    assert counts(night) == list(range(1, len(counted) + 1)), "no command ran twice"
    assert lines_added(night) == list(map(str, counted))
    said = query(
        night.home,
        "select content from steps where kind = 'message' and role = 'user' order by turn",
    )[1]
    assert [content for (content,) in said][1:] == [REPLY]
