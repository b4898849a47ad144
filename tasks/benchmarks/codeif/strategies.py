"""The instruction strategies (CodeIF-Bench Table 1) and their fixed slots."""

import re
from collections.abc import Iterable, Mapping

from schemas.problem import BASE_INSTRUCTION

FUNCTIONALITY_EXTENSION = "Functionality Extension"
"""Contradicts earlier instructions by design, so it is judged alone (section 5.1)."""

STRATEGIES: tuple[str, ...] = (
    "Input-Output Conditions",
    "Exception Handling",
    "Edge Case Handling",
    "Annotation Coverage",
    "Code Complexity",
    "Code Standard",
    FUNCTIONALITY_EXTENSION,
)
STRATEGY_SLOT: dict[str, int] = {
    name: slot for slot, name in enumerate((BASE_INSTRUCTION, *STRATEGIES), 1)
}
"""Second turn axis: the same place for a strategy in every task, 1 for the base instruction."""

CONTEXT_STRATEGIES = ("Context Usage Verification", "Context Usage Correctness Verification")
"""Of tasks that need their repository's code (L2 and L3)."""
REPOSITORY_STRATEGIES: tuple[str, ...] = (
    *STRATEGIES[:-1],
    *CONTEXT_STRATEGIES,
    FUNCTIONALITY_EXTENSION,
)
"""Of those tasks, in the order in which they are given."""
SLOTS_OF_REPOSITORIES: dict[str, int] = {
    name: slot for slot, name in enumerate((BASE_INSTRUCTION, *REPOSITORY_STRATEGIES), 1)
}
"""Their slots: 8 and 9 are the context's, 10 is Functionality Extension."""


def strategy_slots(level: str) -> Mapping[str, int]:
    """Strategy -> its slot, of those that tasks of a level have."""
    return STRATEGY_SLOT if level == "L1" else SLOTS_OF_REPOSITORIES


PACKAGES: tuple[str, ...] = ("pycodestyle", "mccabe", "radon", "numpy")
"""Distributions that tests import (numpy: some published answers do)."""
_IMPORTED = {package: re.compile(rf"\b(?:import|from)\s+{package}\b") for package in PACKAGES}


def imported_packages(tests: Iterable[str]) -> tuple[str, ...]:
    """Those of `PACKAGES` that tests import."""
    text = "\n".join(tests)
    return tuple(package for package, pattern in _IMPORTED.items() if pattern.search(text))


def problem_id(task_id: int) -> str:
    """Problem id of a function task, for example `function/11`."""
    return f"function/{task_id}"


def tested_instructions(instruction_ids: tuple[str, ...], turn: int) -> tuple[str, ...]:
    """Instructions whose tests decide turn `turn`'s answer: T_1..T_n without Functionality Extension, which stands alone.

    Args:
        instruction_ids: of the whole dialog, `base` first.
        turn: 1-based.
    """
    if instruction_ids[turn - 1] == FUNCTIONALITY_EXTENSION:
        return (FUNCTIONALITY_EXTENSION,)
    return tuple(name for name in instruction_ids[:turn] if name != FUNCTIONALITY_EXTENSION)
