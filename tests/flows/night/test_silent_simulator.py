"""A simulator's fault is data: a run whose share of faults is allowed is published, and its cut
dialogues are unscored.
"""

import json
from pathlib import Path

import pytest

from tests.flows.parley_command import parley
from tests.tasks.benchmarks.talk2code.played import sample
from warehouse.connect import query

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
TALKS, SILENT = sample().problems[0], sample().problems[1]


def recording(path: Path, *lines: dict[str, object]) -> str:
    path.write_text(
        "".join(f"{json.dumps({**line, 'sample': 0})}\n" for line in lines), encoding="utf-8"
    )
    return f"recorded:{path}"


def test_a_run_with_an_allowed_share_of_empty_replies_is_published(
    served_home: Path, tmp_path: Path
) -> None:
    """Once in 952 dialogues such a reply withheld a run for good: the check counted spoken rounds
    alone.
    """
    model = recording(
        tmp_path / "model.jsonl",
        *(
            {"problem_id": one.problem_id, "turn": 1, "content": "Is it?"}
            for one in (TALKS, SILENT)
        ),
        {
            "problem_id": TALKS.problem_id,
            "turn": 2,
            "content": f"```python\n{TALKS.reference_code}```",
        },
    )
    user = recording(
        tmp_path / "user.jsonl",
        {"problem_id": TALKS.problem_id, "turn": 2, "content": "Yes."},
        {"problem_id": SILENT.problem_id, "turn": 2, "content": ""},
    )
    command = (
        "run",
        "talk2code.interactive",
        "--dataset-version",
        "sample",
        "--limit",
        "2",
        "--model",
        model,
        "--simulator",
        user,
    )
    done = parley(served_home, *command, "--max-fault-share", "0.6", "--json")
    said = json.loads(done.out)
    assert (done.code, said["published"]) == (0, True), done.err
    assert said["n_infra"] == 3
    rows = query(
        served_home,
        f"SELECT metric, value, unscored_reason FROM scores WHERE run_id = '{said['run_id']}'",
    )[1]
    passed = [row[1:] for row in rows if row[0] == "success_rate"]
    assert sorted(passed, key=str) == [(1.0, None)] * 3 + [(None, "infra")] * 3
