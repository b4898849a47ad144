"""`parley run` on a real instance of each kind of project: gold, no change and three cheats, as
answers of one recording.
"""

import json
from pathlib import Path

import pytest

from tasks.benchmarks.dialogue_swebench.resources import resolve_resources
from tasks.benchmarks.dialogue_swebench.stage import stage
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.dialogue_swebench.real.projects import (
    DJANGO,
    REQUESTS,
    SPHINX,
    SYMPY,
    Project,
)

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.shared, pytest.mark.timeout(3600)]
_VERDICTS = "SELECT sample, instruction_id, outcome FROM test_verdicts WHERE turn > 0 ORDER BY ALL"
_BUILT = ("trees", "environments", "checkouts")


@pytest.mark.parametrize(
    "project", [SPHINX, DJANGO, SYMPY, REQUESTS], ids=lambda project: project.name
)
def test_gold_resolves_and_no_other_patch_does(
    project: Project, shared_data: Path, tmp_path: Path
) -> None:
    data, resources = (
        project.data(shared_data, tmp_path, {project.cheated}),
        project.resources(shared_data),
    )
    built = project.home(tmp_path / "built")
    (problem,) = resolve_resources(stage(data, "x"), data, resources, built).problems
    answers = [
        problem.reference_code,
        "I have changed nothing.",
        *project.cheating_patches(built, problem).values(),
    ]
    recording = tmp_path / "answers.jsonl"
    lines = [
        {"problem_id": problem.problem_id, "turn": 1, "sample": sample, "content": content}
        for sample, content in enumerate(answers)
    ]
    recording.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    for name in _BUILT:
        (built.path / name).mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(built.path / name)
    named = [part for name, path in resources.items() for part in ("--resource", f"{name}={path}")]
    run = (
        "run",
        "dialogue_swebench.first_query",
        "--data",
        data,
        "--model",
        f"recorded:{recording}",
        "--samples",
        len(answers),
    )
    done = parley(home, *run, *named, "--workers", "1", "--json", cwd=tmp_path).json()
    assert (done["n_infra"], done["n_unscored"]) == (0, 0)
    verdicts = parley(home, "sql", _VERDICTS, "--json").json()
    passed = {
        row["sample"]
        for row in verdicts
        if row["instruction_id"] == "fail_to_pass" and row["outcome"] == "passed"
    }
    judged = {row["sample"] for row in verdicts if row["instruction_id"] == "fail_to_pass"}
    assert (judged, passed) == (set(range(len(answers))), {0})
