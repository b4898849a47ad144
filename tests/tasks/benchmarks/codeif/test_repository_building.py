"""`parley build codeif-repository-tasks` on our own project: instructions of nine strategies,
verified in the project's tree.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.dialog import MISSING
from schemas.problem import BASE_INSTRUCTION
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.codeif.construction.repository_tasks import FILES, _without_body  # pyright: ignore[reportPrivateUsage]
from tasks.benchmarks.codeif.settings import CONTEXT_STRATEGIES, REPOSITORY_STRATEGIES
from tasks.benchmarks.codeif.stage import CONSTRUCTION_REPOSITORIES
from tests.fixtures.model_server import ModelServer, model_server
from tests.flows.parley_command import parley
from tests.tasks.benchmarks.codeif.laid_out import VARIABLE, judged, passes, placed

BUNDLED = Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES]))
PROJECTS = BUNDLED / "projects"
ROWS: Mapping[str, dict[str, Any]] = {
    level: json.loads((BUNDLED / name).read_text(encoding="utf-8")) for level, name in FILES.items()
}
TRANSFER, LINE = ROWS["L2"], ROWS["L3"]
EMPTY_TEST = "def test_nothing():\n    assert True"
LAX = "def transfer(self, other, cents):\n    return self.balance\n"


def written(row: Mapping[str, Any], strategy: str, **changes: Any) -> str:
    """The sample's own instruction and test, and its reference, which meets all of them."""
    requirement = row["requirements"][strategy]
    answer = {
        "requirement": requirement["requirement"],
        "unit_test": requirement["unit_test"],
        "solution": row["code"],
    }
    return json.dumps(answer | changes)


def answer(messages: list[dict[str, Any]]) -> str:
    """The author's answer, by the task, the strategy, and how often it was asked to mend its
    pair.
    """
    said, n = messages[0]["content"], len(messages) // 2
    row = next(row for row in ROWS.values() if row["prompt"] in said)
    found = re.search(r'of the kind "([^"]+)"', said)
    assert found, said
    strategy = found[1]
    if row is TRANSFER and strategy == "Exception Handling" and n == 0:
        return written(row, strategy, solution=LAX)
    if row is TRANSFER and strategy == "Edge Case Handling":
        return written(row, strategy, unit_test=["assert True"])
    if row is LINE and strategy == CONTEXT_STRATEGIES[0]:
        return written(row, strategy, unit_test=[EMPTY_TEST.replace("()", "(self)")])
    return written(row, strategy)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(max_seconds=300, answer=answer) as found:
        yield found


def asked(server: ModelServer, out: Path, *more: object) -> tuple[object, ...]:
    model = ("--model", f"openai:mock@{server.base_url}", "--revision", "1")
    return ("build", "codeif-repository-tasks", *model, "--out", out, "--json", *more)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("bubblewrap")
def test_pairs_are_verified_in_the_project_and_staged_again(
    home: Path, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, resource = tmp_path / "made", ("--resource", f"repos={PROJECTS}")
    (dry,) = parley(home, *asked(server, out, *resource, "--dry-run")).json()["calls"]
    assert (dry["estimated"], server.bodies) == (7 + 9 + 9, [])
    done = parley(home, *asked(server, out, *resource))
    assert done.code == 0, done.err

    rejected = json.loads((out / "rejected.json").read_text(encoding="utf-8"))
    assert [
        (row["task_id"], row["strategy"], row["reason"], row["n_answers"]) for row in rejected
    ] == [("repo/ledger.account.Account.transfer", "Edge Case Handling", "unreadable", 3)]
    mended = [
        b
        for b in server.bodies
        if len(b["messages"]) > 1
        and "the solution fails the task's own tests" in str(b["messages"])
    ]
    assert len(mended) == 1
    with (out / "review.csv").open(encoding="utf-8", newline="") as file:
        vacuous = {
            (row["task_id"].rpartition(".")[2], row["strategy"]): row["vacuous"]
            for row in csv.DictReader(file)
        }
    of_contexts = {pair: flag for pair, flag in vacuous.items() if pair[1] in CONTEXT_STRATEGIES}
    assert {flag for pair, flag in vacuous.items() if pair not in of_contexts} == {
        "True"
    }  # the sample's references meet all
    assert of_contexts == {
        ("transfer", CONTEXT_STRATEGIES[0]): "False",
        ("transfer", CONTEXT_STRATEGIES[1]): "False",
        ("line", CONTEXT_STRATEGIES[0]): "True",
        ("line", CONTEXT_STRATEGIES[1]): "False",
    }

    staged = placed(BENCHMARK.data.stage(out, "current"), PROJECTS)
    assert (staged.quarantined, [problem.level for problem in staged.problems]) == (
        (),
        ["L1", "L2", "L3"],
    )
    orders = [dialog.instruction_ids[1:] for dialog in staged.dialogs]
    assert orders[2] == REPOSITORY_STRATEGIES
    assert orders[1] == tuple(
        name for name in REPOSITORY_STRATEGIES if name != "Edge Case Handling"
    )
    monkeypatch.setenv(VARIABLE, str(PROJECTS))
    for problem, dialog in zip(staged.problems, staged.dialogs, strict=True):
        names = (BASE_INSTRUCTION, *dialog.instruction_ids[1:])
        decided = judged(problem, dialog, f"```python\n{problem.reference_code}\n```", names)
        assert {name: passes(cases) for name, cases in decided.items()} == dict.fromkeys(
            names, True
        )

    n_asked = len(server.bodies)
    assert parley(home, *asked(server, out, *resource, "--force")).code == 0
    assert len(server.bodies) == n_asked


def test_a_build_without_projects_names_the_resource(
    home: Path, server: ModelServer, tmp_path: Path
) -> None:
    done = parley(home, *asked(server, tmp_path / "made", "--dry-run"))
    assert (done.code, "--resource repos=DIR" in done.err) == (2, True), done.err
    other = parley(
        home, *asked(server, tmp_path / "made", "--dry-run", "--resource", f"projects={PROJECTS}")
    )
    assert (other.code, "known: repos" in other.err) == (2, True), other.err


def test_rows_hand_on_their_own_fields_and_no_other_version_changes() -> None:
    of_builds = BENCHMARK.data.stage(BUNDLED, CONSTRUCTION_REPOSITORIES)
    handed_on = json.loads(dict(of_builds.dialogs[1].labels)["raw_row"])
    assert handed_on == {name: TRANSFER[name] for name in handed_on}
    assert handed_on.keys() >= {
        "namespace",
        "signature_position",
        "body_position",
        "dependency",
        "tests",
        "completion_path",
    }
    assert "raw_row" not in dict(
        BENCHMARK.data.stage(BUNDLED, SAMPLE_REPOSITORIES).dialogs[1].labels
    )
    assert placed(of_builds, None).dialogs[0].tree == MISSING


def test_a_definition_without_its_body_keeps_its_signature() -> None:
    code = (
        '    @property\n    def f(self, n: int = 3) -> int:\n        """Say it."""\n        '
        "return n\n"
    )
    assert _without_body(code) == "@property\ndef f(self, n: int=3) -> int:\n    pass"
    assert _without_body("def broken(:") == "def broken(:"
