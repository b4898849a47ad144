"""Settings (sections 3.1 and 5.3) and instruction strategies (Table 1) of CodeIF-Bench."""

import re
from collections.abc import Iterable, Mapping

from schemas.dialog import HistoryPolicy, Turn
from schemas.problem import BASE_INSTRUCTION, Problem
from tasks.benchmarks.program_runs import extraction_option
from tasks.benchmarks.setting import Option, Setting
from tasks.benchmarks.staging import question
from tasks.language.prompt import PromptTexts
from tasks.metrics.instruction_following import instruction_following_efficiency

FUNCTIONALITY_EXTENSION = "Functionality Extension"
"""Strategy that contradicts earlier instructions by design, so its turn is judged alone (section
5.1)."""

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
"""Strategy -> position on the axis `strategy_slot`, the same in every task; 1 is the base."""

CONTEXT_STRATEGIES = ("Context Usage Verification", "Context Usage Correctness Verification")
"""Strategies of tasks that need their repository's code (L2 and L3)."""
REPOSITORY_STRATEGIES: tuple[str, ...] = (
    *STRATEGIES[:-1],
    *CONTEXT_STRATEGIES,
    FUNCTIONALITY_EXTENSION,
)
"""All strategies of L2 and L3, in the order of their turns."""
SLOTS_OF_REPOSITORIES: dict[str, int] = {
    name: slot for slot, name in enumerate((BASE_INSTRUCTION, *REPOSITORY_STRATEGIES), 1)
}
"""Strategy -> position on the axis `strategy_slot` in tasks of levels L2 and L3.

Context strategies have 8 and 9, and Functionality Extension has 10.
"""


def strategy_slots(level: str) -> Mapping[str, int]:
    """Return strategy -> position on the axis `strategy_slot` for the tasks of a level."""
    return STRATEGY_SLOT if level == "L1" else SLOTS_OF_REPOSITORIES


def strategy_turns(problem: Problem, order: Iterable[str]) -> tuple[Turn, ...]:
    """Return the turns of a dialog: the base task, then instructions in the given order."""
    slots = strategy_slots(problem.level)
    return tuple(
        turn
        for number, name in enumerate((BASE_INSTRUCTION, *order), 1)
        for turn in question(
            number,
            problem.instruction(name).text,
            name,
            (("strategy_slot", str(slots[name])),),
        )
    )


PACKAGES: tuple[str, ...] = ("pycodestyle", "mccabe", "radon", "numpy")
"""Distributions that tests import, and numpy, which some published answers import."""
_IMPORTED = {package: re.compile(rf"\b(?:import|from)\s+{package}\b") for package in PACKAGES}


def imported_packages(tests: Iterable[str]) -> tuple[str, ...]:
    """Return the members of `PACKAGES` that tests import."""
    text = "\n".join(tests)
    return tuple(package for package, pattern in _IMPORTED.items() if pattern.search(text))


def problem_id(task_id: int) -> str:
    """Return the problem id of a function task, for example `function/11`."""
    return f"function/{task_id}"


def tested_instructions(instruction_ids: tuple[str, ...], turn: int) -> tuple[str, ...]:
    """Return the instructions whose tests decide the answer of a turn.

    These are the instructions up to this turn, except Functionality Extension. Only the tests of
    Functionality Extension decide the turn of that instruction.

    Args:
        instruction_ids: all instructions of the dialog, `base` first.
        turn: 1-based turn.
    """
    if instruction_ids[turn - 1] == FUNCTIONALITY_EXTENSION:
        return (FUNCTIONALITY_EXTENSION,)
    return tuple(name for name in instruction_ids[:turn] if name != FUNCTIONALITY_EXTENSION)


PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up"))
REVIEW_PROMPTS = PromptTexts("tasks.benchmarks.codeif", ("base", "follow_up", "feedback"))
"""Prompts of a dynamic conversation, feedback included."""


STATIC, DYNAMIC, TWO_ROUND = "static", "dynamic", "two_round"
HISTORY, ANSWER_CLEANUP, UPSTREAM_V0 = "history", "answer_cleanup", "upstream_v0"
CONTEXT_TOKENS = "context_tokens"

_HISTORY = Option(
    name=HISTORY,
    values=("on_policy", UPSTREAM_V0),
    default="on_policy",
    affects="episode",
    always_in_id=True,
    help=(
        "history in the request: the model's own dialogue, or the messages of the published "
        "n_round runs (earlier prompts as one message)"
    ),
    upstream=(UPSTREAM_V0,),
)
_ANSWER_CLEANUP = Option(
    name=ANSWER_CLEANUP,
    values=("none", UPSTREAM_V0),
    default="none",
    affects="scoring",
    always_in_id=True,
    help="upstream_v0 deletes docstrings and blank lines from follow-up answers, as upstream did",
    upstream=(UPSTREAM_V0,),
)
_CONTEXT_TOKENS = Option(
    name=CONTEXT_TOKENS,
    values=("all", *(str(1024 * 2**n) for n in range(8))),
    default="all",
    affects="episode",
    help=(
        "maximum tokens of a repository task's golden contexts in the first message, at four "
        "characters each"
    ),
)
SETTINGS: Mapping[str, Setting] = {
    STATIC: Setting(
        name=STATIC,
        help="instructions in the dataset's order, without feedback (section 3.1)",
        options=(_HISTORY, _ANSWER_CLEANUP, _CONTEXT_TOKENS, extraction_option("scoring")),
        prompts=PROMPTS,
    ),
    DYNAMIC: Setting(
        name=DYNAMIC,
        help=(
            "tests select the next unmet instruction; a failed one gets one round of feedback "
            "(section 3.1)"
        ),
        options=(_CONTEXT_TOKENS, extraction_option("episode")),
        prompts=REVIEW_PROMPTS,
        metrics=(instruction_following_efficiency.name,),
    ),
    TWO_ROUND: Setting(
        name=TWO_ROUND,
        help="the base task, then a single instruction: accuracy by strategy (section 5.3)",
        options=(_CONTEXT_TOKENS, extraction_option("scoring")),
        history=HistoryPolicy.FIRST_ROUND,
        prompts=PROMPTS,
    ),
}


def reviewed_instructions(instruction_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the instructions of a dynamic conversation: all except Functionality Extension."""
    return tuple(name for name in instruction_ids if name != FUNCTIONALITY_EXTENSION)


def most_rounds(instruction_ids: tuple[str, ...]) -> int:
    """Return the maximum rounds of a dynamic conversation: 14 in L1, 18 in L2 and L3."""
    return 2 * len(reviewed_instructions(instruction_ids))
