"""An agent that works in files is killed in the middle of a turn: it goes on in its last tree, and
no command counts twice.
"""

from pathlib import Path

import pytest

from tests.crash.night import Kill, Night, counting_server, write_plugin
from tests.tasks.benchmarks.noting import (
    N_DIALOGS,
    N_ROUNDS,
    N_TURNS,
    REQUESTS_A_TURN,
    expected,
    take_notes,
)
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
REQUESTS = N_TURNS * REQUESTS_A_TURN


def test_a_turn_in_a_workspace_goes_on_where_it_was_killed(tmp_path: Path, server_url: str) -> None:
    with counting_server(max_seconds=500) as counter:
        counter.server.answer = take_notes
        night = Night(tmp_path, counter, {"PREFECT_API_URL": server_url})
        module = "tests.tasks.benchmarks.working"
        write_plugin(
            tmp_path / "plugin", "noting", f"{module}:BENCHMARK", agent=("files", f"{module}:AGENT")
        )
        model = f"openai:mock@{counter.server.base_url}"
        run = (
            "run",
            "noting.work",
            "--dataset-version",
            "sample",
            "--model",
            model,
            "--revision",
            "1",
        )
        run = (*run, "--agent", "files", "--concurrency", "2", "--workers", "1", "--json")
        assert night.run([Kill("between turns", "driver", 2 * REQUESTS_A_TURN + 6)], run).code == -9
        line = night.run(arguments=run).line()
    assert (line["status"], line["owed"], line["n_unscored"]) == ("finished", 0, 0)
    assert REQUESTS <= counter.calls() <= REQUESTS + 1, "the other dialogue had a request in flight"
    said = query(
        night.home,
        "select problem_id, turn, trim(content) from turns where role = 'assistant' order by all",
    )[1]
    assert said == [
        (f"d{d}", n, expected(f"d{d}", n)) for d in range(N_DIALOGS) for n in range(1, N_ROUNDS + 1)
    ]
    assert query(night.home, "select outcome, count(*) from test_verdicts group by outcome")[1] == [
        ("passed", N_DIALOGS)
    ]
    trees = "select count(*), count(tree) from steps where kind = 'observation'"
    [(observed, kept)] = query(night.home, trees)[1]
    assert observed == kept
