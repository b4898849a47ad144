"""An agent whose turns take many steps is killed in the middle of one: no answer is paid twice, no
kept tool call runs twice.
"""

from collections import Counter as Tally
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.text.transcript import transcript_text
from tasks.storage.home import Home
from tests.crash.night import Kill, Night, counting_server, write_plugin
from tests.fixtures.model_server import Messages, Reply
from tests.tasks.benchmarks.noting import (
    CALLS_A_TURN,
    LOG,
    N_ROUNDS,
    N_TURNS,
    REQUESTS_A_TURN,
    expected,
    take_notes,
    take_notes_as_text,
)
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
REQUESTS, CALLS = N_TURNS * REQUESTS_A_TURN, N_TURNS * CALLS_A_TURN


@pytest.mark.parametrize(
    ("answers", "flags"),
    [(take_notes, ()), (take_notes_as_text, ("--tools-as-text",))],
    ids=["native-tools", "tools-as-text"],
)
def test_a_turn_of_many_steps_goes_on_where_it_was_killed(
    tmp_path: Path, server_url: str, answers: Callable[[Messages], Reply], flags: tuple[str, ...]
) -> None:
    log = tmp_path / "log.txt"
    with counting_server(max_seconds=500) as counter:
        counter.server.answer = answers
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url, LOG: str(log)})
        module = "tests.tasks.benchmarks.noting"
        write_plugin(
            tmp_path / "plugin", "noting", f"{module}:BENCHMARK", agent=("notes", f"{module}:AGENT")
        )
        model = f"openai:mock@{counter.server.base_url}"
        run = (
            "run",
            "noting.talk",
            "--dataset-version",
            "sample",
            "--model",
            model,
            "--revision",
            "1",
        )
        run = (
            *run,
            "--agent",
            "notes",
            "--agent-option",
            "style=loud",
            "--concurrency",
            "2",
            "--workers",
            "1",
            *flags,
            "--json",
        )
        assert night.run([Kill("between turns", "driver", 2 * REQUESTS_A_TURN + 6)], run).code == -9
        line = night.run(arguments=run).line()
        again = night.run(arguments=(*run, "--resume", line["run_id"])).line()
    assert (line["status"], line["owed"], line["n_unscored"]) == ("finished", 0, 0)
    assert again["model_calls"] == 0
    assert REQUESTS <= counter.calls() <= REQUESTS + 1, "the other dialogue had a request in flight"
    done = Tally(log.read_text().splitlines())
    assert {name: n for name, n in done.items() if name.startswith("tool") and n > 1} == {}
    assert sum(name.startswith("tool") for name in done) == CALLS
    begun = sorted(int(name.split()[1]) for name in done.elements() if name.startswith("begin"))
    assert begun[:2] == [0, 0]
    assert begun[2] > 0, "its notes were found in the steps"
    check_tables(night.home)


def check_tables(home: Path) -> None:
    """Steps in their table, messages in theirs, and the right answers."""
    assert dict(query(home, "select kind, count(*) from steps group by kind")[1]) == {
        "message": 2 * N_TURNS,
        "tool_call": REQUESTS - N_TURNS,
        "observation": CALLS,
    }
    said = query(
        home, "select problem_id, turn, content from turns where role = 'assistant' order by all"
    )[1]
    assert said == [
        (name, n, expected(name, n)) for name in ("d0", "d1") for n in range(1, N_ROUNDS + 1)
    ]
    assert query(home, "select model, calls, n_turns from costs")[1] == [
        ("openai:mock+notes", REQUESTS, N_TURNS)
    ]
    [(episode,)] = query(home, "select episode_id from episodes where problem_id = 'd1'")[1]
    shown = transcript_text(Home.at(home), episode)
    assert '→ write_note (call_0): {"note": "d1.1.0"}' in shown
    assert "turn 1 · tool · observation · call_0 ──\nkept" in shown
