"""Parley's verdicts are plain Python's outcomes: the same programs here, and in a bare subprocess.

`python -m tests.bench.plain` compares the whole of each set and prints every difference.
`WHOLE_CORPUS=1` has the tests of Java and JavaScript take all programs instead of a few.
"""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.interface import Sandbox
from sandbox.judging.runners.programs import PythonProgram, TestProgram
from sandbox.judging.runners.run import run_answer
from schemas.errors import SandboxUnavailable
from schemas.run import Limits
from schemas.verdict import Outcome
from tests.bench.plain import BIGCODEBENCH_LIMITS, LIMITS
from tests.bench.references import DATA, MBPP_FAULTS, reference_programs
from tests.sandbox.plain.corpora import (
    BIGCODEBENCH_VARIABLE,
    bigcodebench,
    bigcodebench_file,
    codeif_functions,
)
from tests.sandbox.plain.differences import StatedException, compare, compare_all
from tests.sandbox.plain.honest import Honest, honest_cases, honest_programs

HONEST = tuple(honest_programs())
FAST = (
    "generator and membership",
    "wildcard class",
    "expression objects",
    "expected failures and subtests",
    "check function",
)
"""Honest programs that the fast tests compare, too."""
JOINT = {
    name: [one for one in HONEST if one.name.startswith(f"{name}/")]
    for name in dict.fromkeys(
        one.name.partition("/")[0] for one in HONEST if isinstance(one.program, PythonProgram)
    )
}
"""Honest programs that are no pytest nodes, by name."""
CASES = DATA.parent / "cases" / "honest.jsonl"
EVERY = 1 if os.environ.get("WHOLE_CORPUS") else 60


@pytest.fixture(scope="module")
def sandbox(bubblewrap: BubblewrapSandbox, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """Warm zygotes where they run, with slots that other tests do not wait for."""
    warm = registry.load("zygote", slot_directory=tmp_path_factory.mktemp("slots"))
    try:
        warm.check()
    except SandboxUnavailable:
        return bubblewrap
    return warm


def differences(
    sandbox: Sandbox, programs: Iterable[tuple[str, TestProgram]], limits: Limits = LIMITS
) -> tuple[list[str], int]:
    """List the programs whose outcomes differ without a stated exception; beside it the number that
    pass in plain Python.
    """
    found = list(compare_all(sandbox, programs, limits))
    assert found
    return [str(one) for one in found if not one.is_equal and one.exception is None], sum(
        one.plain.has_passed for one in found
    )


def verify_honest(sandbox: Sandbox, honest: Honest) -> None:
    """Compare one program, with plain Python's outcome and with what its author expects of both."""
    if honest.missing_package is not None:
        pytest.skip(f"the package {honest.missing_package} is not installed")
    found = compare(sandbox, honest.name, honest.program, LIMITS)
    assert found.plain.has_passed == honest.passes, f"the oracle says otherwise: {found}"
    if honest.exception:
        assert not found.is_equal, f"{honest.exception} is no exception any more"
        assert found.exception in (None, StatedException[honest.exception]), str(found)
    else:
        assert found.is_equal, str(found)


@pytest.mark.parametrize(
    "honest", [one for one in HONEST if one.name.startswith(FAST)], ids=lambda one: one.name
)
def test_some_honest_programs_end_as_in_plain_python(sandbox: Sandbox, honest: Honest) -> None:
    verify_honest(sandbox, honest)


@pytest.mark.slow
@pytest.mark.parametrize(
    "honest", [one for one in HONEST if not one.name.startswith(FAST)], ids=lambda one: one.name
)
def test_honest_programs_end_as_in_plain_python(sandbox: Sandbox, honest: Honest) -> None:
    verify_honest(sandbox, honest)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOINT)
def test_a_joint_run_of_an_answers_tests_ends_as_in_plain_python(
    sandbox: Sandbox, name: str
) -> None:
    """All blocks of an honest program together, as a night runs all instructions on one answer."""
    blocks = JOINT[name]
    if blocks[0].missing_package is not None:
        pytest.skip(f"the package {blocks[0].missing_package} is not installed")
    verdicts, _ = run_answer(sandbox, [block.program for block in blocks], LIMITS)
    expected = {block.name: block.passes and not block.exception for block in blocks}
    assert {
        b.name: getattr(v, "outcome", v) is Outcome.PASSED
        for b, v in zip(blocks, verdicts, strict=True)
    } == expected


@pytest.mark.slow
@pytest.mark.shared
def test_cases_that_ended_wrongly_end_as_in_plain_python(sandbox: Sandbox) -> None:
    if not CASES.is_file():
        pytest.skip("../shared/cases/honest.jsonl is not beside this checkout")
    cases = list(honest_cases(CASES))
    assert differences(sandbox, cases) == (
        [],
        sum(not name.startswith("must_fail") for name, _ in cases),
    )


@pytest.mark.slow
@pytest.mark.shared
def test_humanevals_references_end_as_in_plain_python(sandbox: Sandbox, shared_data: Path) -> None:
    assert differences(sandbox, reference_programs("humaneval")) == ([], 164)


@pytest.mark.slow
@pytest.mark.shared
def test_mbpps_references_end_as_in_plain_python(sandbox: Sandbox, shared_data: Path) -> None:
    """The faults of its data fail in both, too."""
    assert differences(sandbox, reference_programs("mbpp")) == ([], 974 - len(MBPP_FAULTS))


@pytest.mark.slow
@pytest.mark.shared
def test_codeifs_references_end_as_in_plain_python(sandbox: Sandbox, shared_data: Path) -> None:
    """Base tests, which all references pass, and the requirements' tests, which many fail."""
    programs = list(codeif_functions(shared_data))
    assert differences(sandbox, [item for item in programs if item[0].endswith("/base")]) == (
        [],
        50,
    )
    wrong, n_passed = differences(
        sandbox, [item for item in programs if not item[0].endswith("/base")]
    )
    assert wrong == []
    assert 100 < n_passed < 250


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", ["mbjp", "mbjsp"])
def test_java_and_javascript_end_as_without_the_sandbox(
    sandbox: Sandbox, shared_data: Path, name: str
) -> None:
    wrong, n_passed = differences(sandbox, islice(reference_programs(name), 0, None, EVERY))
    assert wrong == []
    assert n_passed > 10


@pytest.mark.long
def test_bigcodebenchs_references_end_as_in_plain_python(sandbox: Sandbox) -> None:
    """Every task whose packages are installed here."""
    path = bigcodebench_file()
    if path is None:
        pytest.skip(
            f"{BIGCODEBENCH_VARIABLE} names no file of BigCodeBench's tasks, or folder with it"
        )
    wrong, n_passed = differences(sandbox, bigcodebench(path), BIGCODEBENCH_LIMITS)
    assert wrong == []
    assert n_passed > 500
