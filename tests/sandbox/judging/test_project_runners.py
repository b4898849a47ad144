"""How runners name tests, and what their logs say of them; as the `swebench` package reads these,
where it is installed.
"""

import importlib.util

import pytest

from sandbox.judging.project_runners import (
    RUNNERS,
    command_of,
    failed_in_log,
    nodes_of,
    record_of,
    spellings,
)

DJANGO_LOG = """\
Testing against Django installed in '/testbed/django'
test_good (a.tests.ThingTests) ... ok
test_doc (a.tests.ThingTests)
What it is about. ... ok
test_bad (a.tests.ThingTests) ... FAIL
test_worse (a.tests.ThingTests)
Raises. ... ERROR
test_no (a.tests.ThingTests) ... skipped 'not here'
======================================================================
FAIL: test_bad (a.tests.ThingTests)
"""
SYMPY_LOG = """\
sympy/core/tests/test_x.py[4]
test_good ok
test_bad F
test_worse E
test_known f
test_no s                                                                 [FAIL]
"""


@pytest.mark.parametrize(
    ("runner", "log", "failed"),
    [
        ("django", DJANGO_LOG, {"test_bad (a.tests.ThingTests)", "Raises."}),
        ("unittest", DJANGO_LOG, {"test_bad (a.tests.ThingTests)", "Raises."}),
        ("sympy", SYMPY_LOG, {"test_bad", "test_worse"}),
    ],
)
def test_a_log_names_its_failures(runner: str, log: str, failed: set[str]) -> None:
    assert failed_in_log(runner, log) == failed


@pytest.mark.parametrize(
    ("parser", "runner", "log"), [("django", "django", DJANGO_LOG), ("sympy", "sympy", SYMPY_LOG)]
)
def test_the_swebench_package_reads_the_same_failures(parser: str, runner: str, log: str) -> None:
    if importlib.util.find_spec("swebench") is None:
        pytest.skip("the package `swebench` (4.1.0, with its parsers) is not installed")
    from swebench.harness.log_parsers import python as parsers  # pyright: ignore[reportMissingImports]

    theirs = getattr(parsers, f"parse_log_{parser}")(log, None)
    failed = {name for name, word in theirs.items() if word in ("FAILED", "ERROR")}
    cut = (
        {"test_bad"} if runner == "django" else set[str]()
    )  # theirs cuts a name of the log's list of failures at its blank
    assert failed_in_log(runner, log) == failed - cut


def test_commands_name_tests_as_each_runner_does() -> None:
    files = ("tests/a_tests/test_b.py", "tests/a_tests/test_b.py", "tests/c/tests.py")
    assert command_of("django", ("tests/runtests.py", "--parallel", "1"), files) == (
        *("tests/runtests.py", "--parallel", "1"),
        *("a_tests.test_b", "c.tests"),
    )
    assert command_of("sympy", ("bin/test", "-C"), ("sympy/core/tests/test_x.py",)) == (
        "bin/test",
        "-C",
        "sympy/core/tests/test_x.py",
    )
    assert command_of("unittest", ("-m", "unittest"), ("pkg/test_a.py",)) == (
        "-m",
        "unittest",
        "pkg.test_a",
    )


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("test_x (a.tests.B)", {"test_x (a.tests.B.test_x)"}),
        ("test_x (a.tests.B.test_x)", {"test_x (a.tests.B)"}),
        ("noise ... test_x (a.B)", {"test_x (a.B)", "test_x (a.B.test_x)"}),
        ("What it is about.", set()),
        ("test_x", set()),
    ],
)
def test_a_name_has_the_spellings_of_older_and_newer_pythons(name: str, others: set[str]) -> None:
    assert spellings(name)[0] == name
    assert others <= set(spellings(name))
    assert not others or "test_y (a.tests.B)" not in spellings(name)


@pytest.mark.parametrize(
    ("name", "nodes", "word"),
    [
        ("a.py::t[x", {"a.py::t[x 1]": "PASSED", "a.py::t[x 2]": "XFAIL"}, "PASSED"),
        ("a.py::t[x", {"a.py::t[x 1]": "SKIPPED", "a.py::t[x 2]": "PASSED"}, "PASSED"),
        ("a.py::t[x", {"a.py::t[x 1]": "XPASS", "a.py::t[x 2]": "PASSED"}, "PASSED"),
        ("a.py::t[x", {"a.py::t[x 1]": "SKIPPED", "a.py::t[x 2]": "SKIPPED"}, "SKIPPED"),
        (
            "a.py::t[x",
            {"a.py::t[x 1]": "PASSED", "a.py::t[x 2]": "XFAIL_UNMARKED"},
            "XFAIL_UNMARKED",
        ),
        ("a.py::t[x", {"a.py::t[x 1]": "PASSED", "a.py::t[x 2]": "FAILED"}, "FAILED"),
        ("a.py::t[x", {"a.py::t[y 1]": "PASSED"}, ""),
        ("a.py::t[[1,2]", {"a.py::t[[1,2] [3]]": "PASSED"}, "PASSED"),
        ("a.py::t[x]", {"a.py::t[x]-1]": "PASSED"}, ""),
        ("a.py::t[/b.py]", {"a.py::t[/w/tests/b.py]": "PASSED"}, "PASSED"),
        ("a.py::t[/b.py]", {"a.py::t[/w/b.py]": "PASSED", "a.py::t[/v/b.py]": "FAILED"}, "FAILED"),
        ("a.py::t[/b.py]", {"a.py::t[//w/b.py]": "PASSED", "a.py::t[/w*/b.py]": "PASSED"}, ""),
        ("a.py::t[/b.py]", {"a.py::t[/b.py]": "PASSED", "a.py::t[/w/b.py]": "FAILED"}, "PASSED"),
    ],
)
def test_a_shortened_id_stands_for_the_ids_that_log_parsers_shorten_to_it(
    name: str, nodes: dict[str, str], word: str
) -> None:
    records = {f"node {node}": (outcome, "") for node, outcome in nodes.items()}
    assert record_of(name, records)[0] == word


def test_an_audit_finds_the_functions_that_names_stand_for() -> None:
    files = ("tests/a_tests/test_b.py", "tests/a_tests/test_c.py")
    names = (
        "test_x (a_tests.test_b.Thing)",
        "test_y (a_tests.test_c.Thing.test_y)",
        "What it is about.",
        "test_z (other.Thing)",
    )
    assert nodes_of("django", names, files) == {
        "tests/a_tests/test_b.py::Thing::test_x": "test_x (a_tests.test_b.Thing)",
        "tests/a_tests/test_c.py::Thing::test_y": "test_y (a_tests.test_c.Thing.test_y)",
    }
    assert nodes_of("sympy", ("test_x",), ("sympy/tests/test_x.py",)) == {
        "sympy/tests/test_x.py::test_x": "test_x"
    }
    assert nodes_of("", ("a.py::test_x",), files) == {"a.py::test_x": "a.py::test_x"}


def test_runners_have_no_pytest_among_them() -> None:
    assert set(RUNNERS) == {"django", "sympy", "unittest"}
