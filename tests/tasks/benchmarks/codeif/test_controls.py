"""The table's two ends: gold answers pass their own tests, empty ones fail them, in the real
sandbox.
"""

from pathlib import Path

import pytest

from schemas.problem import Instruction
from schemas.verdict import Outcome
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.contract import Staged
from tests.tasks.benchmarks.codeif.dialogues import sample
from tests.tasks.benchmarks.codeif.sandboxed import Judged, judge

GOLD_FAILS_ITS_BASE_TESTS: dict[str, set[str]] = {"current": set(), "v0": set()}


def with_all_instructions(staged: Staged) -> Staged:
    """The same problems, each dialogue giving every instruction that the problem has."""
    dialogs = []
    for problem, dialog in zip(staged.problems, staged.dialogs, strict=True):
        user, assistant = dialog.turns[:2]
        turns = tuple(
            turn.model_copy(
                update={
                    "turn": number,
                    "instruction_id": i.instruction_id if turn is user else None,
                }
            )
            for number, i in enumerate(problem.instructions, 1)
            for turn in (user, assistant)
        )
        dialogs.append(dialog.model_copy(update={"turns": turns}))
    return Staged(tuple(dialogs), staged.problems, (), staged.n_input)


def gold(staged: Staged, turns: tuple[int, ...] = ()) -> tuple[Judged, ...]:
    return judge(
        staged,
        lambda p, d: [
            BENCHMARK.play.gold_answer(p, n) for n in range(1, len(d.instruction_ids) + 1)
        ],
        {},
        turns,
    )


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
def test_gold_passes_every_test_of_the_sample() -> None:
    judged = gold(with_all_instructions(sample()))
    failed = [
        (v.problem_id, v.turn, v.instruction_id, v.outcome)
        for j in judged
        for v in j.verdicts
        if v.outcome != "passed"
    ]
    assert not failed
    assert len({(v.problem_id, v.instruction_id) for j in judged for v in j.verdicts}) == 8 * 8
    assert all(
        s.value in (1.0, None)
        for j in judged
        for s in j.scores
        if s.metric != "instruction_forgetting_ratio"
    )
    assert all(
        s.value == 0
        for j in judged
        for s in j.scores
        if s.metric == "instruction_forgetting_ratio" and s.turn > 1
    )


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.slow
def test_an_empty_answer_fails_every_test_of_the_sample() -> None:
    judged = judge(with_all_instructions(sample()), lambda _, d: [""] * len(d.instruction_ids), {})
    assert {v.outcome for j in judged for v in j.verdicts} == {Outcome.FAILED}


def test_no_two_instructions_of_a_sample_task_say_the_same() -> None:
    def texts(instructions: tuple[Instruction, ...]) -> set[str]:
        return {i.text for i in instructions}

    assert all(len(texts(p.instructions)) == len(p.instructions) for p in sample().problems)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("version", ["current", "v0"])
def test_upstream_s_reference_code_passes_its_base_tests(version: str, shared_data: Path) -> None:
    judged = gold(
        BENCHMARK.data.stage(shared_data / "codeif_bench" / "function", version), turns=(1,)
    )
    assert {j.dialog.problem_id for j in judged if not j.passed(1)} == GOLD_FAILS_ITS_BASE_TESTS[
        version
    ]
    assert len(judged) == 50
