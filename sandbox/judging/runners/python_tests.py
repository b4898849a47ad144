"""Python statements in one piece, or each a test of its own, and HumanEval's `check(entry_point)`."""

from sandbox.judging.judged_run import PythonTests, Unit
from schemas.verdict import ProgramVerdict


def statement_tests(tests: tuple[str, ...]) -> PythonTests:
    """All in one piece: they pass or fail together, and have no cases."""
    text = "\n".join(tests) + "\n"
    return PythonTests((Unit("tests", "statements", text, text),), _without_cases)


def assert_tests(tests: tuple[str, ...]) -> PythonTests:
    """A case for each, named `test 1` and so on. A test that ends the program fails all later tests.

    Raises:
        ValueError: there is no test.
    """
    if not tests:
        raise ValueError("a program without tests has no verdict: give at least one")
    units = tuple(
        Unit(f"test {n}", "statements", f"{test}\n", f"{test}\n") for n, test in enumerate(tests, 1)
    )
    return PythonTests(units, _as_it_is)


def check_tests(test: str, entry_point: str) -> PythonTests:
    """One case, named `check`: the function that the test defines, called with the entry point."""
    text = f"{test}\ncheck({entry_point})\n"
    return PythonTests((Unit("check", "statements", text, text),), _as_it_is)


def _without_cases(ran: ProgramVerdict) -> ProgramVerdict:
    return ran.model_copy(update={"detail": ran.cases[0].detail, "cases": ()})


def _as_it_is(ran: ProgramVerdict) -> ProgramVerdict:
    return ran
