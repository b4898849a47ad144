"""Which tests run on which answer, and what code is taken from it."""

from pathlib import Path

import pytest

from schemas.dialog import Dialog
from schemas.problem import Problem
from tasks.benchmarks.codeif import BENCHMARK
from tests.tasks.benchmarks.codeif.dialogues import episode_of, raw_row, sample, write_rows

FENCED = 'Sure.\n```python\ndef f():\n    """\n    Say one.\n    """\n\n    return 1\n```\nBye.'
CODE = 'def f():\n    """\n    Say one.\n    """\n\n    return 1\n'


def staged(tmp_path: Path, *turns: str, version: str = "current") -> tuple[Problem, Dialog]:
    result = BENCHMARK.data.stage(
        write_rows(tmp_path / "rows.jsonl", raw_row(**{"multi-turn": list(turns)})), version
    )
    return result.problems[0], result.dialogs[0]


def test_each_answer_is_run_with_the_tests_of_all_instructions_so_far(tmp_path: Path) -> None:
    problem, dialog = staged(tmp_path, "Exception Handling", "Code Standard")
    runs = BENCHMARK.programs.test_runs(
        problem, dialog, episode_of(problem, dialog, ["a", "b", "c"]), {}
    )
    assert [(run.turn, run.instruction_id, run.code) for run in runs] == [
        (1, "base", "a"),
        (2, "base", "b"),
        (2, "Exception Handling", "b"),
        (3, "base", "c"),
        (3, "Exception Handling", "c"),
        (3, "Code Standard", "c"),
    ]
    assert runs[2].tests == ("assert add", "assert 1")


def test_functionality_extension_is_judged_alone_and_by_nobody_later(tmp_path: Path) -> None:
    problem, dialog = staged(
        tmp_path, "Exception Handling", "Functionality Extension", "Code Standard"
    )
    runs = BENCHMARK.programs.test_runs(problem, dialog, episode_of(problem, dialog, "abcd"), {})
    by_turn = {turn: [run.instruction_id for run in runs if run.turn == turn] for turn in (3, 4)}
    assert by_turn == {
        3: ["Functionality Extension"],
        4: ["base", "Exception Handling", "Code Standard"],
    }


def test_a_round_without_answer_has_its_runs_but_no_code(tmp_path: Path) -> None:
    problem, dialog = staged(tmp_path, "Exception Handling")
    runs = BENCHMARK.programs.test_runs(problem, dialog, episode_of(problem, dialog, ["a"]), {})
    assert [(run.turn, run.code) for run in runs] == [(1, "a"), (2, None), (2, None)]


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    problem, dialog = staged(tmp_path)
    assert [
        run.code
        for run in BENCHMARK.programs.test_runs(
            problem, dialog, episode_of(problem, dialog, [""]), {}
        )
    ] == [""]


@pytest.mark.parametrize(
    ("cleanup", "expected"),
    [("none", [CODE, CODE]), ("upstream_v0", [CODE, "def f():\n    return 1"])],
    ids=["none", "upstream_v0"],
)
def test_upstream_s_cleanup_takes_docstrings_and_blank_lines_from_follow_ups(
    cleanup: str, expected: list[str], tmp_path: Path
) -> None:
    problem, dialog = staged(tmp_path, "Functionality Extension")
    episode = episode_of(problem, dialog, [FENCED, FENCED])
    runs = BENCHMARK.programs.test_runs(problem, dialog, episode, {"answer_cleanup": cleanup})
    assert [run.code for run in runs] == expected


def test_the_gold_answer_s_code_is_the_reference_code() -> None:
    result = sample()
    for problem, dialog in zip(result.problems, result.dialogs, strict=True):
        answers = [
            BENCHMARK.play.gold_answer(problem, turn)
            for turn in range(1, len(dialog.instruction_ids) + 1)
        ]
        runs = BENCHMARK.programs.test_runs(
            problem, dialog, episode_of(problem, dialog, answers), {}
        )
        assert {run.code for run in runs} == {problem.reference_code + "\n"}
        assert {run.reference for run in runs} == {problem.reference_code}
