"""unittest classes, one verdict for each test method (BigCodeBench)."""

import ast
import functools
from collections.abc import Mapping

from sandbox.judging.judged_run import LONGEST_DETAIL, PythonTests, Unit, harmless, of_cases
from sandbox.judging.python_syntax import parse
from schemas.verdict import Outcome, ProgramVerdict

SHOWN_FIRST = 3
"""Number of test methods, from the top of the text, that run before all others. Partial coverage shows their failures: code that
had met later tests by then could tell their arguments there."""
_MODULE = "<module>"


def unittest_tests(text: str, longest: int = LONGEST_DETAIL) -> PythonTests:
    """The test methods: the text's first three, then the others, each time class by class in unittest's own order.

    The methods' names are read from the text, so that none can go missing. The verdict has a case for each, named
    `Class.method`, as they stand in the text. An error of the module fails them all.

    Args:
        longest: characters of a case's detail.

    Raises:
        ValueError: the text does not parse, or has no test method.
    """
    wanted = method_names(text)
    units = (Unit(_MODULE, "module", text + "\n", text), *_units(wanted, text))
    return PythonTests(
        units,
        functools.partial(_of_methods, wanted),
        main="__test__",
        kind="unittest",
        longest=longest,
    )


def _of_methods(wanted: tuple[str, ...], ran: ProgramVerdict) -> ProgramVerdict:
    module, *cases = ran.cases
    found = {case.name: case for case in cases}
    if module.outcome is Outcome.PASSED:
        return of_cases(ran, tuple(found[name] for name in wanted))
    if ran.reason is None:
        found = {name: module.model_copy(update={"name": name}) for name in found}
    judged = of_cases(ran, tuple(found[name] for name in wanted))
    return judged.model_copy(
        update={"detail": harmless(judged.cases[0].detail), "module_error": module.detail}
    )


def method_names(text: str) -> tuple[str, ...]:
    """`Class.method` of each test method, as they stand in the text.

    Raises:
        ValueError: the text does not parse, or has no test method.
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
            "the tests have no class of unittest.TestCase with a test method: nothing could be judged"
        )
    return every


@functools.lru_cache(maxsize=512)
def case_classes(text: str) -> Mapping[str, tuple[str, ...]]:
    """Class -> its methods in order, inherited ones last, for each class that is a TestCase by name or by its bases.

    Raises:
        ValueError: the text does not parse.
    """
    try:
        tree = parse(text)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"the tests are not Python: {error}") from error
    found: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if any(base.endswith("TestCase") or base in found for base in bases):
            own = [
                item.name
                for item in node.body
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
            ]
            inherited = [method for base in bases for method in found.get(base, ())]
            found[node.name] = tuple(dict.fromkeys([*own, *inherited]))
    return found


def _units(wanted: tuple[str, ...], source: str) -> list[Unit]:
    """In the order in which they run, marked where a class or the module is to be torn down."""
    ordered = [*sorted(wanted[:SHOWN_FIRST]), *sorted(wanted[SHOWN_FIRST:])]
    last_of_class = {title.partition(".")[0]: title for title in ordered}
    marks = {
        title: ["last of class"] if last_of_class[title.partition(".")[0]] == title else []
        for title in ordered
    }
    marks[ordered[-1]].append("last of module")
    return [Unit(title, "case", "\n".join((title, *marks[title])), source) for title in ordered]
