"""Python tests in three forms: statements, separate tests, and a function `check(entry_point)`."""

from sandbox.judging.judged_run import PythonTests, Unit
from schemas.verdict import ProgramVerdict


def statement_tests(tests: tuple[str, ...]) -> PythonTests:
    """Return tests that pass or fail together. Their verdict has no cases."""
    text = "\n".join(tests) + "\n"
    return PythonTests((Unit("tests", "statements", text, text),), _without_cases)


def assert_tests(tests: tuple[str, ...]) -> PythonTests:
    """Return tests with one case each, named `test 1`, `test 2` and so on.

    If a test ends the program, all later tests fail.

    Raises:
        ValueError: there is no test.
    """
    if not tests:
        raise ValueError("a program without tests has no verdict: pass at least one")
    units = tuple(
        Unit(f"test {n}", "statements", f"{test}\n", f"{test}\n") for n, test in enumerate(tests, 1)
    )
    return PythonTests(units, _unchanged)


def check_tests(test: str, entry_point: str) -> PythonTests:
    """Return a test whose only case, `check`, calls the function `check` with the entry point."""
    text = f"{test}\ncheck({entry_point})\n"
    return PythonTests((Unit("check", "statements", text, text),), _unchanged)


def _without_cases(ran: ProgramVerdict) -> ProgramVerdict:
    return ran.model_copy(update={"detail": ran.cases[0].detail, "cases": ()})


def _unchanged(ran: ProgramVerdict) -> ProgramVerdict:
    return ran
