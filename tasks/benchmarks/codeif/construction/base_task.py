"""A base task that gets instructions: what a model is asked about it, and how code for it is checked by running tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from schemas.problem import BASE_INSTRUCTION, Problem
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.codeif.construction.written import Written
from tasks.benchmarks.codeif.strategies import FUNCTIONALITY_EXTENSION, STRATEGIES
from tasks.benchmarks.construction import ConstructionRequest
from tasks.language.prompt import fill, load_prompt

PROMPTS = {
    name: load_prompt("tasks.benchmarks.codeif", name)
    for name in ("extract_strategy", "write_pair", "repair_pair", "combine")
}
DESCRIPTIONS: Mapping[str, str] = {
    "Input-Output Conditions": "what the code takes and gives back: types, ranges, forms of its arguments and results.",
    "Exception Handling": "which error the code raises, or lets nobody see, and when.",
    "Edge Case Handling": "what the code does at the ends of its range: nothing, one thing, very much, extreme values.",
    "Annotation Coverage": "types that the code's signatures state.",
    "Code Complexity": "how much structure the code may have, such as branches, nesting or length.",
    "Code Standard": "a rule of style that the text of the code keeps to.",
    FUNCTIONALITY_EXTENSION: "something that the code can do besides, even if that changes what was asked first.",
}
"""Strategy -> what its requirements are about (Table 1)."""
LONGEST_DETAIL = 600


class BaseTask(Protocol):
    """A base task with the request that builds on it."""

    @property
    def request(self) -> ConstructionRequest:
        """Models and programs of the build."""
        ...

    @property
    def problem(self) -> Problem:
        """The task itself."""
        ...

    @property
    def strategies(self) -> Sequence[str]:
        """Strategies that the task gets instructions of, in the order of its turns."""
        ...

    def question(self, strategy: str) -> str:
        """Return the text that asks for an instruction of a strategy."""
        ...

    def unreadable(self, strategy: str, written: Written) -> str | None:
        """Return what is wrong with the form of an answer; None where the tests can be run."""
        ...

    def ignorant_code(self, strategy: str) -> str:
        """Return code that knows nothing of a strategy's instruction: a test that it passes is vacuous."""
        ...

    async def fault(
        self, code: str, written: Mapping[str, Written], *, with_base: bool = True
    ) -> str | None:
        """Run the task's own tests, if asked for, and those of instructions on code.

        Args:
            written: strategy -> its instruction.

        Returns:
            The end of the tests' report; None where all pass.
        """
        ...


@dataclass(frozen=True)
class FunctionTask:
    """A function on its own. See `tasks.benchmarks.codeif.construction.base_task.BaseTask`."""

    request: ConstructionRequest
    problem: Problem
    strategies: Sequence[str] = STRATEGIES

    def question(self, strategy: str) -> str:
        return fill(
            PROMPTS["write_pair"],
            task=self.problem.prompt,
            reference=self.problem.reference_code.strip(),
            strategy=strategy,
            description=DESCRIPTIONS[strategy],
        )

    def unreadable(self, strategy: str, written: Written) -> str | None:
        return None

    def ignorant_code(self, strategy: str) -> str:
        return self.problem.reference_code

    async def fault(
        self, code: str, written: Mapping[str, Written], *, with_base: bool = True
    ) -> str | None:
        base = self.problem.instruction(BASE_INSTRUCTION).suite.tests if with_base else ()
        tests = (*base, *(line for one in written.values() for line in one.unit_test))
        return report(await self.request.programs.run("statements", code, tests))


def report(verdict: ProgramVerdict) -> str | None:
    """Return the end of what tests report; None where they pass."""
    return (
        None
        if verdict.outcome is Outcome.PASSED
        else (verdict.detail or verdict.outcome.value)[-LONGEST_DETAIL:]
    )
