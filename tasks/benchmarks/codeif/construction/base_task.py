"""Inputs of a build: base tasks with the test runs that check their code, and review comments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.dialog import Context, Role, Turn
from schemas.problem import BASE_INSTRUCTION, Problem, QuarantinedRow
from schemas.verdict import Outcome, ProgramVerdict
from tasks.benchmarks.advanced import ConstructionRequest
from tasks.benchmarks.codeif.raw_row import RawRequirement
from tasks.benchmarks.codeif.settings import FUNCTIONALITY_EXTENSION, STRATEGIES
from tasks.benchmarks.contract import Staged
from tasks.benchmarks.raw_rows import BadRow, Text, read_lines, relative_name
from tasks.benchmarks.staging import Staging
from tasks.language.prompt import fill, load_prompt

if TYPE_CHECKING:
    from tasks.language.embedding import Vector

CONSTRUCTION = "construction"
"""Dataset version of base tasks with review comments."""
FILES = "review_comments*.jsonl"
_FIELDS = ("comment", "msg", "text")
"""Names that the field with a review comment may have."""


def comments_of(staged: Staged) -> tuple[str, ...]:
    """Return the distinct comments of the data in order."""
    return tuple(
        dict.fromkeys(turn.content or "" for context in staged.contexts for turn in context.turns)
    )


def read_comments(
    source: Path, benchmark: str, version: str
) -> tuple[tuple[Context, ...], tuple[QuarantinedRow, ...]]:
    """Read a folder's review comments into one context, as one turn for each comment.

    Returns:
        The context, and the rows without a readable comment.
    """
    texts, staging = list[str](), Staging(benchmark, version)
    paths = sorted([*source.glob(FILES), *source.glob(f"{FILES}.gz")]) if source.is_dir() else ()
    for path in paths:
        for line in read_lines(path):
            try:
                texts.append(_comment(line.fields()))
            except BadRow as bad:
                staging.quarantine(relative_name(path, source), line.number, bad, line.content)
    turns = tuple(Turn(turn=n, role=Role.USER, content=text) for n, text in enumerate(texts, 1))
    return (Context.of(benchmark, version, turns),) if turns else (), tuple(staging.quarantined)


def _comment(raw: dict[str, Any]) -> str:
    comment = next((raw[name] for name in _FIELDS if name in raw), None)
    if comment is None:
        raise BadRow("missing_field", f"no {', '.join(_FIELDS)}")
    if not isinstance(comment, str):
        raise BadRow("wrong_type", "the comment is no text")
    if not comment.strip():
        raise BadRow("blank_text", "the comment is blank")
    return comment


def k_centres(vectors: "Sequence[Vector]", k: int) -> tuple[int, ...]:
    """Return the indices of `k` vectors, each the farthest from those selected before.

    The first vector is always selected. Of equally far vectors the first is selected. With at most
    `k` vectors, all are selected.

    Args:
        vectors: vectors of length 1, so that distance falls as the dot product grows.
        k: number of vectors to select.

    Source: Sener and Savarese 2018, algorithm 1.
    """
    if not vectors or k < 1:
        return ()
    chosen, farthest = [0], 0
    nearest = [-inf] * len(vectors)
    while len(chosen) < min(k, len(vectors)):
        for n, vector in enumerate(vectors):
            nearest[n] = max(nearest[n], float(vector @ vectors[farthest]))
        nearest[farthest] = inf  # never select it again
        farthest = min(range(len(vectors)), key=nearest.__getitem__)
        chosen.append(farthest)
    return tuple(chosen)


class Draft(RawRequirement):
    """Model-written requirement in the benchmark's native format, with code that meets it."""

    solution: Text


@dataclass(frozen=True)
class Pair:
    """Verified pair: the draft's solution passes the draft's test."""

    strategy: str
    draft: Draft
    is_vacuous: bool
    """True if code written without the requirement passes the test, too."""
    n_answers: int


@dataclass(frozen=True)
class Rejection:
    """Pair that was not written, failed its verification, or conflicts with an earlier one."""

    strategy: str
    reason: str
    detail: str
    n_answers: int


@dataclass(frozen=True)
class Verification:
    """Verified and rejected pairs of one base task."""

    pairs: tuple[Pair, ...]
    order: tuple[str, ...]
    """Strategies in the order of their turns."""
    rejections: tuple[Rejection, ...]


PROMPTS = {
    name: load_prompt("tasks.benchmarks.codeif", name)
    for name in ("extract_strategy", "write_pair", "repair_pair", "combine")
}
DESCRIPTIONS: Mapping[str, str] = {
    "Input-Output Conditions": (
        "what the code takes and gives back: types, ranges, forms of its arguments and results."
    ),
    "Exception Handling": "which error the code raises, or lets nobody see, and when.",
    "Edge Case Handling": (
        "what the code does at the ends of its range: nothing, one thing, very much, extreme "
        "values."
    ),
    "Annotation Coverage": "types that the code's signatures state.",
    "Code Complexity": "how much structure the code may have, such as branches, nesting or length.",
    "Code Standard": "a rule of style that the text of the code keeps to.",
    FUNCTIONALITY_EXTENSION: (
        "something that the code can do besides, even if that changes what was asked first."
    ),
}
"""Strategy -> subject of its requirements (Table 1), part of the prompt."""
LONGEST_DETAIL = 600


@dataclass(frozen=True)
class BaseTask:
    """Base task for which a build writes instructions: a task about a single function."""

    request: ConstructionRequest
    """Request of the build, with its models and its program runner."""
    problem: Problem

    @property
    def strategies(self) -> Sequence[str]:
        """Strategies of the instructions to write, in the order of the turns."""
        return STRATEGIES

    def question(self, strategy: str) -> str:
        """Return the prompt for an instruction of a strategy."""
        return fill(
            PROMPTS["write_pair"],
            task=self.problem.prompt,
            reference=self.problem.reference_code.strip(),
            strategy=strategy,
            description=DESCRIPTIONS[strategy],
        )

    def unreadable(self, strategy: str, draft: Draft) -> str | None:
        """Return what is wrong with the form of a draft; None if its test can be run."""
        return None

    def ignorant_code(self, strategy: str) -> str:
        """Return code written without the strategy's instruction.

        If this code passes the instruction's test, the test is vacuous.
        """
        return self.problem.reference_code

    async def fault(
        self, code: str, drafts: Mapping[str, Draft], *, with_base: bool = True
    ) -> str | None:
        """Run tests on code: those of instructions, and by default those of the base task.

        Args:
            code: the program to test.
            drafts: strategy -> its instruction.
            with_base: run the base task's tests, too.

        Returns:
            The end of the tests' report; None if all pass.
        """
        base = self.problem.instruction(BASE_INSTRUCTION).suite.tests if with_base else ()
        tests = (*base, *(line for draft in drafts.values() for line in draft.unit_test))
        return report(await self.request.programs.run("statements", code, tests))


def report(verdict: ProgramVerdict) -> str | None:
    """Return the end of the tests' report; None if they pass."""
    return (
        None
        if verdict.outcome is Outcome.PASSED
        else (verdict.detail or verdict.outcome.value)[-LONGEST_DETAIL:]
    )
