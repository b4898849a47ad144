"""Real instances whose tests ask httpbin: fixes of requests, where its public history lies beside;
see `projects.py`.
"""

import json
from pathlib import Path

import pytest

from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tests.tasks.benchmarks.dialogue_swebench.real.projects import REQUESTS, check_ends

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]


def test_gold_resolves_and_the_empty_patch_does_not(tmp_path: Path) -> None:
    home = REQUESTS.home(tmp_path / "home")
    staged = REQUESTS.staged(tmp_path, tmp_path, home)
    assert (len(staged.problems), staged.quarantined) == (2, ())
    check_ends(REQUESTS, home, {problem.problem_id: problem for problem in staged.problems})


def test_rows_without_a_server_for_their_tests_are_quarantined(tmp_path: Path) -> None:
    data, resources = REQUESTS.data(tmp_path, tmp_path), REQUESTS.resources(tmp_path)
    pins = json.loads(REQUESTS.pins.read_text(encoding="utf-8"))
    del pins["environments"]["requests"]["services"]
    resources["environments"] = tmp_path / "environments.json"
    resources["environments"].write_text(json.dumps(pins), encoding="utf-8")
    staged = resolve_resources(stage(data, "x"), data, resources, REQUESTS.home(tmp_path / "home"))
    assert (staged.problems, [row.reason for row in staged.quarantined]) == (
        (),
        ["network_missing"] * 2,
    )
