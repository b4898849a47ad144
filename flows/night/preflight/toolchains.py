"""Warnings about missing toolchains that pending tasks need."""

from collections import Counter
from collections.abc import Iterable, Iterator

from sandbox.interface import Sandbox
from sandbox.judging.runners.toolchains import required_modules, toolchain_fault
from schemas.problem import Problem, SuiteKind

_KINDS: tuple[SuiteKind, ...] = ("java", "javascript")


def toolchain_warnings(sandbox: Sandbox, problems: Iterable[Problem]) -> Iterator[str]:
    """Yield one line per missing toolchain, with the number of tasks that stay unscored without it.

    A missing toolchain stops no run: tasks in other languages are scored.

    Raises:
        SandboxUnavailable: The sandbox does not run.
    """
    needs = Counter(need for problem in problems for need in _needs(problem))
    for kind in _KINDS:
        by_modules = {modules: n for (of_kind, modules), n in needs.items() if of_kind == kind}
        faults: Counter[str] = Counter()
        for modules, n in by_modules.items():
            if fault := toolchain_fault(sandbox, kind, modules):
                faults[fault] += n
        for fault, n in faults.items():
            yield (
                f"{n} of the {sum(needs.values())} pending tasks will be unscored"
                f" (toolchain_missing): {fault}"
            )


def _needs(problem: Problem) -> Iterator[tuple[SuiteKind | None, frozenset[str]]]:
    """Yield the toolchain of a task with its modules. Python tasks yield None as toolchain."""
    suites = [
        instruction.suite
        for instruction in problem.instructions
        if instruction.suite.kind in _KINDS
    ]
    modules = frozenset(
        name
        for suite in suites
        if suite.kind == "javascript"
        for test in suite.tests
        for name in required_modules(test)
    )
    yield (suites[0].kind if suites else None), modules
