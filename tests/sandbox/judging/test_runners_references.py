"""A seeded sample of the public sets' reference solutions passes; `python -m
tests.bench.references` runs them all.
"""

import random
import shutil
from pathlib import Path

import pytest

from sandbox.backends.bubblewrap.backend import BubblewrapSandbox
from sandbox.judging.runners.compiled_tests import node_command, runtime_limits, toolchain_fault
from sandbox.judging.runners.programs import JavaScriptProgram, TestProgram
from sandbox.judging.runners.run import run_tests
from schemas.verdict import Outcome
from tests.bench.references import DATA, LIMITS, MBPP_FAULTS, SETS, not_passed, reference_programs

pytestmark = pytest.mark.slow

SAMPLES = {"humaneval": 8, "mbpp": 8, "mbjp": 2}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_of_references_passes(bubblewrap: BubblewrapSandbox, shared_data: Path, name: str):
    if name == "mbjp" and shutil.which("javac") is None:
        pytest.skip("no JDK (`apt-get install default-jdk-headless`)")
    programs = [
        (task, p)
        for task, p in reference_programs(name)
        if name != "mbpp" or number(task) not in MBPP_FAULTS
    ]
    assert not_passed(bubblewrap, random.Random(5).sample(programs, SAMPLES[name])) == {}


@pytest.mark.skipif(
    shutil.which("node") is None,
    reason="node is not installed (`apt-get install nodejs node-lodash`)",
)
def test_javascript_passes_where_plain_node_ends_with_status_0(
    bubblewrap: BubblewrapSandbox, shared_data: Path
):
    """The set's own solutions are not all right, so plain node is asked."""
    faulty = ("MBJSP/2", "MBJSP/18", "MBJSP/26")
    programs = [
        (task, program)
        for task, program in reference_programs("mbjsp")
        if task in faulty or number(task) < 12
    ]
    if fault := toolchain_fault(bubblewrap, "javascript", ("lodash",)):
        pytest.skip(fault)
    ours = {task: run_tests(bubblewrap, program, LIMITS) for task, program in programs}
    passes = {task: verdict.outcome is Outcome.PASSED for task, verdict in ours.items()}
    assert passes == {task: ends_well(bubblewrap, program) for task, program in programs}
    assert set(passes.values()) == {True, False}


def ends_well(sandbox: BubblewrapSandbox, program: TestProgram) -> bool:
    assert isinstance(program, JavaScriptProgram)
    text = (program.prompt + program.completion + program.test).encode()
    with sandbox.session(runtime_limits(LIMITS)) as session:
        return session.run(node_command("program.js"), files={"program.js": text}).exit_code == 0


def test_a_fault_of_the_data_is_seen(bubblewrap: BubblewrapSandbox, shared_data: Path):
    faulty = [(task, program) for task, program in reference_programs("mbpp") if number(task) == 56]
    assert set(not_passed(bubblewrap, faulty)) == {"MBPP/56"}


def test_the_sets_are_whole(shared_data: Path):
    assert DATA.samefile(shared_data)
    sizes = {name: sum(1 for _ in reference_programs(name)) for name in ("humaneval", "mbpp")}
    assert sizes == {"humaneval": 164, "mbpp": 974}
    assert all((DATA / path).is_file() for path in SETS.values())


def number(task: str) -> int:
    return int(task.rpartition("/")[2])
