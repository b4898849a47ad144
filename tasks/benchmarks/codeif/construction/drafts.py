"""Model-written requirements for a base task, and the result of their verification."""

from dataclasses import dataclass

from tasks.benchmarks.codeif.raw_row import RawRequirement
from tasks.benchmarks.raw_lines import Text


class Draft(RawRequirement):
    """Requirement in the native format, with code that meets it."""

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
