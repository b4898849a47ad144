"""Python tests: statements, `check(entry_point)`, and unittest classes (BigCodeBench)."""

import ast
import functools
from collections.abc import Mapping

from sandbox.judging.judged_run import LONGEST_DETAIL, PythonTests, Unit, harmless, of_cases
from sandbox.judging.runners.programs import parse
from schemas.verdict import Outcome, ProgramVerdict


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


SHOWN_FIRST = 3
"""Number of test methods, from the top of the text, that run before all others. Feedback with
partial coverage shows their failures. If later tests had run before, the code could reveal their
arguments in these failures.
"""
_MODULE = "<module>"


def unittest_tests(text: str, longest: int = LONGEST_DETAIL) -> PythonTests:
    """Return tests with a case for each test method of a module.

    The first three methods of the text run first, then the others; each group runs class by class
    in unittest's own order. The method names are read from the text, so that every method has a
    case. The cases are named `Class.method`, and have the order of the text. If the module itself
    raises an exception, all cases fail.

    Args:
        text: text of the module.
        longest: maximum number of characters of a case's detail.

    Raises:
        ValueError: the text is not valid Python, or has no test method.
    """
    names = method_names(text)
    units = (Unit(_MODULE, "module", text + "\n", text), *_units(names, text))
    return PythonTests(
        units,
        functools.partial(_of_methods, names),
        main="__test__",
        kind="unittest",
        longest=longest,
    )


def _of_methods(names: tuple[str, ...], ran: ProgramVerdict) -> ProgramVerdict:
    module, *cases = ran.cases
    cases_by_name = {case.name: case for case in cases}
    if module.outcome is Outcome.PASSED:
        return of_cases(ran, tuple(cases_by_name[name] for name in names))
    if ran.reason is None:
        cases_by_name = {name: module.model_copy(update={"name": name}) for name in cases_by_name}
    judged = of_cases(ran, tuple(cases_by_name[name] for name in names))
    return judged.model_copy(
        update={"detail": harmless(judged.cases[0].detail), "module_error": module.detail}
    )


def method_names(text: str) -> tuple[str, ...]:
    """Return `Class.method` of each test method, in the text's order.

    Raises:
        ValueError: the text is not valid Python, or has no test method.
    """
    classes = case_classes(text)
    every = tuple(
        f"{name}.{method}"
        for name, methods in classes.items()
        for method in methods
        if method.startswith("test")
    )
    if not every:
        raise ValueError(
            "the tests have no class of unittest.TestCase with a test method. "
            "Add one, or there is no verdict"
        )
    return every


@functools.lru_cache(maxsize=512)
def case_classes(text: str) -> Mapping[str, tuple[str, ...]]:
    """Map each TestCase class to its methods in order, inherited ones last.

    A class counts as a TestCase if the name of a base ends in `TestCase`, or if a base is such a
    class of the module.

    Raises:
        ValueError: the text does not parse.
    """
    try:
        tree = parse(text)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"the tests are not Python: {error}") from error
    methods_of: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if any(base.endswith("TestCase") or base in methods_of for base in bases):
            own = [
                item.name
                for item in node.body
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
            ]
            inherited = [method for base in bases for method in methods_of.get(base, ())]
            methods_of[node.name] = tuple(dict.fromkeys([*own, *inherited]))
    return methods_of


def _units(names: tuple[str, ...], source: str) -> list[Unit]:
    """Return the units in the order in which they run.

    Units after which a class or the module must be torn down are marked.
    """
    ordered = [*sorted(names[:SHOWN_FIRST]), *sorted(names[SHOWN_FIRST:])]
    last_of_class = {title.partition(".")[0]: title for title in ordered}
    marks = {
        title: ["last of class"] if last_of_class[title.partition(".")[0]] == title else []
        for title in ordered
    }
    marks[ordered[-1]].append("last of module")
    return [Unit(title, "case", "\n".join((title, *marks[title])), source) for title in ordered]
