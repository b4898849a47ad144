"""What a model writes for a base task and a strategy, and what comes of it."""

from dataclasses import dataclass

from tasks.benchmarks.codeif.raw_row import RawRequirement
from tasks.benchmarks.raw_lines import Text


class Written(RawRequirement):
    """A requirement as the native format has it, and code that meets it."""

    solution: Text


@dataclass(frozen=True)
class Pair:
    """A pair that its own solution passes."""

    strategy: str
    written: Written
    is_vacuous: bool
    """Code that knows nothing of the requirement passes as well: the test tells nothing."""
    n_answers: int


@dataclass(frozen=True)
class Rejected:
    """A pair that came to nothing."""

    strategy: str
    reason: str
    detail: str
    n_answers: int


@dataclass(frozen=True)
class Verified:
    """Pairs of one base task."""

    pairs: tuple[Pair, ...]
    order: tuple[str, ...]
    """Strategies in the order of their turns."""
    rejected: tuple[Rejected, ...]
