"""An instance whose tests unittest runs on an older Python, through the command line; one that
nothing can run is quarantined.
"""

import json
from pathlib import Path

import pytest

from sandbox.host.python_environment import find_python
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.dialogue_swebench.graded import LEDGER, SAMPLE, SLUGS, patch_of
from tests.tasks.benchmarks.dialogue_swebench.test_unittest_grading import OWN, as_unittest
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.long]
VERSION = next(
    (version for version in ("3.6", "3.7", "3.8", "3.9", "3.10") if find_python(version)), "3.11"
)
NAME = "dialogue_swebench"


def test_gold_resolves_a_cheat_does_not_and_what_nothing_runs_is_not_asked(
    standing_home: Path, tmp_path: Path
) -> None:
    rows = {
        row["instance_id"]: row
        for row in map(json.loads, (SAMPLE / "sample.jsonl").read_text().splitlines())
    }
    unknown = {**rows[LEDGER], "test_cmd": "make check"}
    (tmp_path / "rows.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in (as_unittest(rows[SLUGS]), unknown))
    )
    environments = {"bare": {"versions": [rows[SLUGS]["version"]], "requirements": []}}
    (tmp_path / "pins.json").write_text(
        json.dumps({"python": VERSION, "environments": environments})
    )
    (tmp_path / "base").mkdir()
    cheat = patch_of(
        tmp_path / "base", "parley-sample/slugs", OWN["a failure is reported as a success"].changes
    )
    answer = {"problem_id": SLUGS, "turn": 1, "content": cheat}
    (tmp_path / "subject.jsonl").write_text(json.dumps(answer) + "\n")
    data = ("--data", tmp_path / "rows.jsonl", "--resource", f"repos={SAMPLE / 'repos'}")
    data = (
        *data,
        "--resource",
        f"environments={tmp_path / 'pins.json'}",
        "--workers",
        "1",
        "--max-fault-share",
        "1",
        "--json",
    )
    resolved: dict[str, float | None] = {}
    for model in ("control:gold", f"recorded:{tmp_path / 'subject.jsonl'}"):
        line = parley(standing_home, "run", f"{NAME}.first_query", *data, "--model", model).json()
        of_run = f"run_id = '{line['run_id']}' and metric = 'resolved'"
        ((value,),) = query(standing_home, f"select value from scores where {of_run}")[1]
        resolved[model.partition(":")[0]] = value
    assert resolved == {"control": 1.0, "recorded": 0.0}
    reasons = query(
        standing_home, f"select distinct reason from quarantine where benchmark = '{NAME}'"
    )[1]
    assert ("runner_unknown",) in reasons
