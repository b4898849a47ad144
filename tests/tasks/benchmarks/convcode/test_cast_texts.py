"""What is shown of a program's report, coverage by coverage, and how messages are put together."""

import pytest

from schemas.episode import Feedback
from schemas.verdict import CaseVerdict, Outcome, ProgramVerdict
from tasks.benchmarks.convcode.settings import (
    LONG,
    NO_SYNTAX_ERRORS,
    Coverage,
    compilation_text,
    compose,
    execution_text,
    shortened,
)

PARTIAL: Coverage = "first_three_tests"
UPSTREAM: Coverage = "upstream_first_three_methods"
TESTS = """import unittest

class TestCases(unittest.TestCase):
    def setUp(self): pass
    def helper(self): pass
    def test_a(self): pass
    def test_b(self): pass
    def test_c(self): pass
    def test_d(self): pass
"""


def report(
    marks: str, outcome: Outcome | None = None, module_error: str | None = None
) -> ProgramVerdict:
    """A report of tests a, b, ...: `+` passes, `-` fails, `t` runs out of time."""
    outcomes = {"+": Outcome.PASSED, "-": Outcome.FAILED, "t": Outcome.TIMEOUT}
    cases = tuple(
        CaseVerdict(
            name=f"TestCases.test_{letter}",
            outcome=outcomes[mark],
            detail="" if mark == "+" else f"{mark} of {letter}\n",
        )
        for letter, mark in zip("abcdefgh", marks, strict=False)
    )
    worst = (
        Outcome.TIMEOUT
        if "t" in marks
        else Outcome.FAILED
        if "-" in marks or module_error
        else Outcome.PASSED
    )
    return ProgramVerdict(
        outcome=outcome or worst,
        detail="of d: hidden",
        module_error=module_error,
        cases=cases,
        verdict_id="v",
    )


@pytest.mark.parametrize(
    ("marks", "full", "partial", "upstream"),
    [
        ("++++", None, None, None),
        ("-+++", "TEST_A\n- of a", "TEST_A\n- of a", "TEST_A\n- of a"),
        (
            "--++",
            "TEST_A\n- of a\n\nTEST_B\n- of b",
            "TEST_A\n- of a\n\nTEST_B\n- of b",
            "TEST_A\n- of a",
        ),
        ("++-+", "TEST_C\n- of c", "TEST_C\n- of c", None),
        ("+++-", "TEST_D\n- of d", None, None),
        ("t+++", "TEST_A\nt of a", "TEST_A\nt of a", None),
        ("+++t", "TEST_D\nt of d", "ALL\nt of d", None),
        (
            "-++t",
            "TEST_A\n- of a\n\nTEST_D\nt of d",
            "TEST_A\n- of a\n\nALL\nt of d",
            "TEST_A\n- of a",
        ),
    ],
)
def test_what_each_coverage_shows(
    marks: str, full: str | None, partial: str | None, upstream: str | None
) -> None:
    """The first three methods are setUp, a helper and one test; a time limit is shown without the
    name of an unseen test.
    """
    found = report(marks)
    assert execution_text(found, "full", (TESTS,)) == full
    assert execution_text(found, PARTIAL, (TESTS,)) == partial
    assert execution_text(found, UPSTREAM, (TESTS,)) == upstream


@pytest.mark.parametrize("coverage", ["full", PARTIAL])
def test_an_error_of_the_module_is_shown_once_whatever_the_coverage(coverage: Coverage) -> None:
    found = report("----", module_error="NameError: x\n")
    assert execution_text(found, coverage, (TESTS,)) == "ALL\nNameError: x"


def test_upstream_s_coverage_takes_an_error_of_the_module_for_a_pass() -> None:
    assert execution_text(report("----", module_error="NameError: x"), UPSTREAM, (TESTS,)) is None


def test_a_test_s_name_is_its_method_in_capitals() -> None:
    cases = (CaseVerdict(name="TestOthers.testUpper_Case", outcome=Outcome.FAILED, detail="d"),)
    found = ProgramVerdict(outcome=Outcome.FAILED, cases=cases, verdict_id="v")
    assert execution_text(found, "full", ()) == "TESTUPPER_CASE\nd"


def test_the_compiler_says_that_there_is_no_syntax_error_or_its_traceback() -> None:
    assert compilation_text(report("-")) == NO_SYNTAX_ERRORS == "No syntax errors"
    broken = report("-").model_copy(update={"compile_error": "Traceback\nSyntaxError: x\n"})
    assert compilation_text(broken) == "Traceback\nSyntaxError: x"


def test_a_text_is_cut_from_8_000_characters_on() -> None:
    lines = [f"{n:03}" + "x" * 76 for n in range(100)]
    assert len(whole := "\n".join(lines)) == LONG - 1
    assert shortened(whole) == whole
    assert shortened(f"{whole}\n") == "\n".join([*lines[:5], "...", *lines[-5:]])


@pytest.mark.parametrize(("length", "is_cut"), [(LONG - 1, False), (LONG, True)])
def test_one_long_line_keeps_its_ends(length: int, is_cut: bool) -> None:
    text = "a" * (length - 1) + "b"
    assert shortened(text) == ("a" * 2000 + "\n...\n" + "a" * 3999 + "b" if is_cut else text)


def test_three_long_lines_keep_the_first_and_the_last() -> None:
    assert shortened("a" * 4000 + "\nmiddle\n" + "c" * 4000) == "a" * 2000 + "\n...\n" + "c" * 4000


def test_long_execution_feedback_is_cut() -> None:
    cases = tuple(
        CaseVerdict(name=f"T.test_{n}", outcome=Outcome.FAILED, detail="line\n" * 500)
        for n in range(4)
    )
    text = execution_text(
        ProgramVerdict(outcome=Outcome.FAILED, cases=cases, verdict_id="v"), "full", ()
    )
    assert text == "TEST_0\nline\nline\nline\nline\n...\nline\nline\nline\nline\nline"


def test_a_message_has_the_parts_that_there_are() -> None:
    message = compose("P {code}", "c = {1}\n", Feedback(execution="E", verbal="V {feedback}"))
    assert message.startswith("P {code}\n\n")
    assert (
        "```python\nc = {1}\n```\n\nExecution feedback:\nE\n\nUser feedback:\nV "
        "{feedback}\n\nFirst think"
    ) in message
    assert "Compilation" not in message


def test_there_is_no_message_without_feedback() -> None:
    with pytest.raises(ValueError, match="Keep the previous code"):
        compose("P", "c", Feedback())
