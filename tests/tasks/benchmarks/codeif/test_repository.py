"""Repository tasks: rows to dialogs, programs in a tree, the controls on our own project, and
projects that are not there.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox import registry
from sandbox.judging.runners.run import run_tests
from schemas.dialog import MISSING, Dialog
from schemas.episode import StopReason, UnscoredReason
from schemas.errors import ConfigError, UnknownName, Unscorable
from schemas.problem import BASE_INSTRUCTION, Problem
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.codeif import BENCHMARK, SAMPLE_REPOSITORIES
from tasks.benchmarks.codeif.cast import wanted_programs
from tasks.benchmarks.codeif.stage import (
    RESOURCE,
    context_from,
    place_of,
    within_budget,
)
from tasks.benchmarks.contract import Staged
from tasks.dialogue.tools import WantedProgram
from tasks.planning.dataset import resolved_data
from tasks.storage.home import Home
from tasks.worker.program_book import program_in_place
from tests.tasks.benchmarks.codeif.dialogues import episode_of, raw_row, scores_of, write_rows
from tests.tasks.benchmarks.codeif.laid_out import placed

BUNDLED = Path(str(BENCHMARK.data.bundled[SAMPLE_REPOSITORIES]))
PROJECTS = BUNDLED / "projects"


def sample(projects: Path | None = PROJECTS) -> Staged:
    staged = BENCHMARK.data.stage(BUNDLED, SAMPLE_REPOSITORIES)
    return placed(staged, projects)


def raw(name: str = "L_2_part_1", **changes: Any) -> dict[str, Any]:
    row = json.loads((BUNDLED / f"{name}.jsonl").read_text(encoding="utf-8")) | changes
    return {name: value for name, value in row.items() if value is not None}


def test_the_levels_are_those_of_what_the_tasks_depend_on() -> None:
    staged = sample()
    assert [
        (p.problem_id, p.level, dict(d.labels)["definition"])
        for p, d in zip(staged.problems, staged.dialogs, strict=True)
    ] == [
        ("repo/ledger.money.parse_cents", "L1", "parse_cents"),
        ("repo/ledger.account.Account.transfer", "L2", "Account.transfer"),
        ("repo/ledger.report.Report.line", "L3", "Report.line"),
    ]


def test_contexts_have_their_slots_and_level_3_takes_the_order_of_level_2() -> None:
    first, second, third = sample().dialogs
    slots = [
        [(t.instruction_id, dict(t.labels)["strategy_slot"]) for t in d.turns if t.content]
        for d in (first, second, third)
    ]
    assert slots[0][-1] == ("Functionality Extension", "8")
    assert slots[1] == slots[2]
    assert slots[1][-3:] == [
        ("Context Usage Verification", "8"),
        ("Context Usage Correctness Verification", "9"),
        ("Functionality Extension", "10"),
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"namespace": 5}, "wrong_type"),
        ({"tests": None}, "missing_field"),
        ({"completion_path": "Other/x.py"}, "unsafe_path"),
        ({"project_path": "../ledger"}, "unsafe_path"),
        ({"tests": ["/etc/test.py::test"]}, "unsafe_path"),
        ({"multi-turn": ["Code Beauty"]}, "unknown_requirement"),
        ({"multi-turn": ["Code Standard", "Code Standard"]}, "duplicate_turn"),
        ({"signature_position": [1]}, "wrong_type"),
        ({"namespace": []}, "wrong_type"),
        ({"completion_path": "Sample/ledger/"}, "unsafe_path"),
        ({"completion_path": "Sample/ledger//etc/x.py"}, "unsafe_path"),
        ({"completion_path": "Sample/ledger/a\0b.py"}, "unsafe_path"),
        ({"signature_position": [0, 0]}, "wrong_type"),
        ({"body_position": [1, 10**400]}, "wrong_type"),
        ({"signature_position": [90, 90], "body_position": [2, 3]}, "wrong_lines"),
        ({"dependency": {}}, "unknown_requirement"),
        ({"dependency": None}, "missing_field"),
        ({"requirements": []}, "wrong_type"),
    ],
)
def test_a_bad_row_is_quarantined(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "L_2_part_1.jsonl", raw(), raw(**{"namespace": "a.b"} | changes))
    staged = BENCHMARK.data.stage(path, "current")
    assert [row.reason for row in staged.quarantined] == [reason]
    assert len(placed(staged, PROJECTS).dialogs) == 1


def test_all_files_of_a_folder_are_staged_but_of_the_first_release_functions_alone(
    tmp_path: Path,
) -> None:
    for folder in (tmp_path, tmp_path / "v0"):
        write_rows(folder / "function" / "L_1_part_1.jsonl", raw_row())
        write_rows(folder / "repo" / "L_1_part_2.jsonl", raw("L_1_part_2"))
        write_rows(folder / "repo" / "L_3.jsonl", raw("L_3"))
    names = {
        version: [p.problem_id for p in BENCHMARK.data.stage(tmp_path, version).problems]
        for version in ("current", "v0")
    }
    assert names["v0"] == ["function/1"]
    assert names["current"] == [
        "function/1",
        "repo/ledger.money.parse_cents",
        "repo/ledger.report.Report.line",
    ]


def test_contexts_are_cut_around_the_function_s_place_and_shared_by_their_sections() -> None:
    dialog = sample().dialogs[2]
    prompt = dialog.turns[0].content or ""
    begins = context_from(dialog)
    assert within_budget(prompt, begins, None) == within_budget(prompt, begins, 100_000) == prompt
    cut = within_budget(prompt, begins, 200)
    assert len(cut) < (begins or 0) + 4 * 200 + 60
    assert cut.startswith(prompt[:begins])
    assert "###The function: line###" in cut
    assert "####cross_file_context:" in cut
    assert within_budget("no contexts", None, 1) == "no contexts"


def ran(wanted: WantedProgram) -> ProgramVerdict:
    program = program_in_place(((RESOURCE, str(PROJECTS)),), wanted)
    assert wanted.place is not None
    assert wanted.place.limits is not None
    return run_tests(registry.load("zygote"), program, wanted.place.limits)


def wanted(problem: Problem, dialog: Dialog, code: str) -> WantedProgram:
    return wanted_programs(problem, dialog, dialog.instruction_ids, code, {})[0]


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_gold_passes_every_test_and_an_empty_answer_none() -> None:
    staged = sample()
    for problem, dialog in zip(staged.problems, staged.dialogs, strict=True):
        gold = ran(wanted(problem, dialog, BENCHMARK.play.gold_answer(problem, 1)))
        assert {(case.name, case.outcome, case.detail) for case in gold.cases} == {
            (node, Outcome.PASSED, "") for node in wanted(problem, dialog, "").tests
        }
        assert ran(wanted(problem, dialog, "")).outcome is Outcome.FAILED


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_one_program_tells_the_instructions_apart() -> None:
    problem, dialog = sample().problems[1], sample().dialogs[1]
    careless = (
        "def transfer(self, other, cents, fee=0):\n    self.balance -= cents\n    other.balance "
        "+= cents\n    return self.balance"
    )
    report = ran(wanted(problem, dialog, careless))
    _, decides = place_of(problem, dialog, dialog.instruction_ids)
    passed = {case.name for case in report.cases if case.outcome is Outcome.PASSED}
    assert {name for name, nodes in decides.items() if passed.issuperset(nodes)} == {
        *("Input-Output Conditions", "Edge Case Handling", "Code Complexity", "Code Standard"),
    }


def test_a_test_with_the_name_of_a_base_test_does_not_take_its_place(tmp_path: Path) -> None:
    row = raw()
    row["requirements"]["Code Standard"] |= {
        "test": row["tests"][0],
        "unit_test": ["def test_transfer_moves_money(): pass"],
    }
    staged = placed(BENCHMARK.data.stage(write_rows(tmp_path / "L_2.jsonl", row), "current"), None)
    place, decides = place_of(
        staged.problems[0], staged.dialogs[0], (BASE_INSTRUCTION, "Code Standard")
    )
    assert decides["Code Standard"] == (f"{row['tests'][0]}__added",)
    assert place.placing is not None
    assert place.placing.added[0].text == "def test_transfer_moves_money__added(): pass"


def test_a_project_that_is_not_there_is_not_asked_for_and_unscored(tmp_path: Path) -> None:
    for staged in (sample(None), sample(tmp_path)):
        for problem, dialog in zip(staged.problems, staged.dialogs, strict=True):
            assert dialog.tree == MISSING
            due = BENCHMARK.due("static", {}, dialog)
            assert (due.rounds, list(due.answered)) == (0, [])
            scores = scores_of(
                problem, dialog, episode_of(problem, dialog, [], StopReason.NOT_ASKED), ()
            )
            assert {score.unscored_reason for score in scores} == {UnscoredReason.SOURCE_MISSING}
            assert due.scores <= {(score.turn, score.metric) for score in scores}


def test_a_tree_of_another_release_is_told_apart_from_a_wrong_answer() -> None:
    problem, dialog = sample().problems[0], sample().dialogs[0]
    labels = tuple(
        ("definition", "parse_euros") if name == "definition" else (name, value)
        for name, value in dialog.labels
    )
    other = dialog.model_copy(
        update={
            "labels": tuple(label if label[0] != "lines" else ("lines", "1-2") for label in labels)
        }
    )
    one = wanted(problem, other, "x")
    with pytest.raises(Unscorable, match="parse_euros"):
        program_in_place(((RESOURCE, str(PROJECTS)),), one)


def test_a_resource_that_nobody_knows_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    home = Home.at(str(tmp_path / "home"))
    with pytest.raises(UnknownName, match="repos"):
        resolved_data(
            BENCHMARK, str(BUNDLED), SAMPLE_REPOSITORIES, home, {"repositories": str(tmp_path)}
        )
    with pytest.raises(ConfigError, match="the path does not exist"):
        resolved_data(
            BENCHMARK, str(BUNDLED), SAMPLE_REPOSITORIES, home, {RESOURCE: str(tmp_path / "gone")}
        )
