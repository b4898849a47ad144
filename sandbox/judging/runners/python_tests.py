"""Lists of Python statements, and HumanEval's `check(entry_point)`."""

from sandbox.interface import Sandbox
from sandbox.judging.judged_run import Unit, run_units
from sandbox.judging.runners.programs import AssertProgram, CheckProgram
from schemas.run import Limits
from schemas.verdict import ProgramVerdict


def run_asserts(sandbox: Sandbox, program: AssertProgram, limits: Limits) -> ProgramVerdict:
    """Run each test; returns a case for each, named `test 1` and so on. A test that ends the program fails all later tests.

    Raises:
        SandboxUnavailable: the sandbox could not run it.
        ValueError: there is no test.
    """
    if not program.tests:
        raise ValueError("a program without tests has no verdict: give at least one")
    units = tuple(Unit(f"test {n}", "statements", f"{test}\n", f"{test}\n") for n, test in enumerate(program.tests, 1))
    return run_units(sandbox, program.code, units, limits)


def run_check(sandbox: Sandbox, program: CheckProgram, limits: Limits) -> ProgramVerdict:
    """Run the function `check`; returns one case, named `check`.

    Raises:
        SandboxUnavailable: the sandbox could not run it.
    """
    text = f"{program.test}\ncheck({program.entry_point})\n"
    return run_units(sandbox, program.prompt + program.completion, (Unit("check", "statements", text, text),), limits)
