"""No reference and no real model's answer is accused."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.decoys.auditing import audit_program
from sandbox.judging.runners.programs import TestProgram, program_of
from sandbox.judging.runners.run import run_tests
from schemas.audit import Audited, AuditOutcome
from schemas.run import Limits
from schemas.verdict import Outcome
from tasks.benchmarks.codeif import BENCHMARK
from tasks.benchmarks.codeif.recording import import_recording
from tasks.language.markdown_code import first_python_block
from tests.bench.references import MBPP_FAULTS, reference_programs

pytestmark = [pytest.mark.slow, pytest.mark.shared]

LIMITS = Limits(cpu_s=10, wall_s=60)
ANSWERS = 300
"""Answers of CodeIF's published runs that are tried; about half pass."""


def audited(
    sandbox: BubblewrapSandbox, programs: Sequence[tuple[str, TestProgram, TestProgram | None]]
) -> dict[str, Audited]:
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(
            lambda one: audit_program(sandbox, one[1], one[2], LIMITS, "a seed"), programs
        )
        return dict(zip((name for name, _, _ in programs), found, strict=True))


def accused(audits: dict[str, Audited]) -> dict[str, str]:
    wrong = (AuditOutcome.FORGED, AuditOutcome.SUSPECTED)
    return {name: audit.decoy for name, audit in audits.items() if audit.outcome in wrong}


@pytest.mark.parametrize(("name", "every"), [("humaneval", 4), ("mbpp", 12)])
def test_references_are_not_accused(
    bubblewrap: BubblewrapSandbox, shared_data: Path, name: str, every: int
) -> None:
    references = list(reference_programs(name))[::every]
    sound = [
        (task, program)
        for task, program in references
        if task not in {f"MBPP/{n}" for n in MBPP_FAULTS}
    ]
    audits = audited(bubblewrap, [(task, program, program) for task, program in sound])
    assert accused(audits) == {}
    assert all(audit.n_decoys for audit in audits.values())


def test_real_answers_are_not_accused(bubblewrap: BubblewrapSandbox, shared_data: Path) -> None:
    answers = list(answers_of(shared_data / "codeif_bench"))
    random.Random(5).shuffle(answers)
    tried = answers[:ANSWERS]
    with ThreadPoolExecutor(2) as threads:
        verdicts = list(threads.map(lambda one: run_tests(bubblewrap, one[1], LIMITS), tried))
    passed = [
        one
        for one, verdict in zip(tried, verdicts, strict=True)
        if verdict.outcome is Outcome.PASSED
    ]
    assert len(passed) > ANSWERS // 3
    assert accused(audited(bubblewrap, passed)) == {}


def answers_of(data: Path) -> Iterator[tuple[str, TestProgram, TestProgram]]:
    """Yield each answer of the published runs with one instruction's tests, and the reference with
    the same.
    """
    problems = {
        problem.problem_id: problem for problem in BENCHMARK.data.stage(data, "v0").problems
    }
    for model in ("qwen2.5-7b-instruct", "deepseek-chat"):
        contents: dict[str, list[str]] = defaultdict(list)
        for answer in import_recording(data / "function" / "Experiments", model):
            contents[answer.problem_id].append(answer.content)
        for name, texts in contents.items():
            problem = problems[name]
            for instruction, text in zip(problem.instructions, texts, strict=False):
                tests = instruction.suite.tests
                program = program_of("statements", first_python_block(text), tests)
                reference = program_of("statements", problem.reference_code, tests)
                yield f"{model} {name} {instruction.instruction_id}", program, reference
