"""A whole night on servers that Parley starts itself: replicas, the table `serving`, what a dry run says.

`tests/fixtures/vllm_program.py` stands in vLLM's place; `make test-vllm` plays nights on the real one.
"""

from pathlib import Path

import pytest

from tests.fixtures import vllm_program
from tests.flows.parley_command import SAMPLE, parley
from warehouse.connect import query


@pytest.mark.slow
@pytest.mark.long
def test_each_dialogue_stays_with_one_replica_and_the_tables_tell_what_they_did(
    standing_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARLEY_DASK_ADDRESS")  # servers on loopback are for workers of this machine
    weights = tmp_path / "tiny"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    serve = ("--serve", "replicas=2", "--serve", f"command={vllm_program.install(tmp_path)}")
    asked = (*SAMPLE, "--model", f"vllm:{weights}", *serve)
    (dry,) = [parley(standing_home, *asked, "--dry-run", "--json").json()]
    assert len(dry["serves"]) == 1
    assert dry["serves"][0].endswith("# 2 times")
    done = parley(standing_home, *asked, "--json")
    report = done.json()
    assert report["published"], done.err
    of_night = f"FROM serving WHERE night_id = '{report['night_id']}' GROUP BY replica ORDER BY replica"
    _, servers = query(standing_home, f"SELECT replica, sum(requests), sum(prompt_tokens) {of_night}")
    assert [row[0] for row in servers] == [0, 1]
    assert sum(row[1] for row in servers) == report["model_calls"]
    _, dialogues = query(
        standing_home,
        "SELECT episode_id, count(DISTINCT content), any_value(content) FROM turns"
        f" WHERE role = 'assistant' AND run_id = '{report['run_id']}' GROUP BY 1",
    )
    assert {row[1] for row in dialogues} == {1}
    assert len({row[2] for row in dialogues}) == 2
    _, tokens = query(standing_home, f"SELECT sum(input_tokens) FROM turns WHERE run_id = '{report['run_id']}'")
    assert tokens[0][0] == sum(row[2] for row in servers)
