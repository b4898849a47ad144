"""Instruction following in a conversation (CodeIF-Bench section 3.2, equations 1 to 4).

All are pure functions of one dialogue's verdicts. The benchmark's scoring asks them only where the verdicts they read are there
(no answer and infra leave gaps). Shares are in [0, 1].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.metrics.registry import metric


@dataclass(frozen=True)
class TurnVerdicts:
    """The tests' verdicts on one turn's answer."""

    instruction_id: str
    """The instruction that this turn gave: I_n."""
    passed: Mapping[str, bool]
    """Instruction -> whether the answer passes its tests. Holds every T_k that was run on this answer."""


def _turn(verdicts: Sequence[TurnVerdicts], n: int) -> TurnVerdicts:
    if not 1 <= n <= len(verdicts):
        raise ValueError(f"turn {n} is outside 1..{len(verdicts)}: turns are counted from 1")
    return verdicts[n - 1]


def _test_sequence(verdicts: Sequence[TurnVerdicts], n: int) -> Mapping[str, bool]:
    turn = _turn(verdicts, n)
    if not turn.passed:
        raise ValueError(
            f"turn {n} ({turn.instruction_id}) has no verdicts: run its tests before scoring it"
        )
    return turn.passed


@metric("instruction_accuracy", version=1, title="IA")
def instruction_accuracy(verdicts: Sequence[TurnVerdicts], n: int) -> float:
    """Whether turn `n`'s answer passes the tests of the instruction that turn `n` gave.

    Args:
        verdicts: one per turn, in order.
        n: 1-based turn.

    Returns:
        1.0 or 0.0; its mean over tasks is the paper's IA_n.

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or its own instruction has no verdict.

    Source: CodeIF-Bench eq. 1 (section 3.2).
    """
    turn = _turn(verdicts, n)
    if turn.instruction_id not in turn.passed:
        raise ValueError(f"turn {n} has no verdict of its own instruction {turn.instruction_id!r}")
    return float(turn.passed[turn.instruction_id])


@metric("conversation_accuracy_strict", version=1, title="CA")
def conversation_accuracy_strict(verdicts: Sequence[TurnVerdicts], n: int) -> float:
    """Whether turn `n`'s answer passes all tests of T_1..T_n.

    Args:
        verdicts: one per turn, in order; each holds T_1..T_n without instructions that contradict earlier ones.
        n: 1-based turn.

    Returns:
        1.0 or 0.0; its mean over tasks is what the paper's static Table 5 shows.

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or nothing was run on its answer.

    Source: CodeIF-Bench Table 5 (section 5.1).
    """
    return float(all(_test_sequence(verdicts, n).values()))


@metric("conversation_accuracy_fraction", version=1, title="CA share")
def conversation_accuracy_fraction(verdicts: Sequence[TurnVerdicts], n: int) -> float:
    """Share of the instructions T_1..T_n that turn `n`'s answer passes.

    Args:
        verdicts: one per turn, in order; each holds T_1..T_n without instructions that contradict earlier ones.
        n: 1-based turn.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or nothing was run on its answer.

    Source: CodeIF-Bench eq. 2 (section 3.2).
    """
    passed = _test_sequence(verdicts, n).values()
    return sum(passed) / len(passed)


@metric("instruction_forgetting_ratio", version=1, title="IFR", better="lower")
def instruction_forgetting_ratio(verdicts: Sequence[TurnVerdicts], n: int) -> float | None:
    """Share of the instructions passed by an answer before turn `n` that turn `n`'s answer fails.

    The denominator PTS holds each instruction that any answer A_1..A_{n-1} passed, however many passed it, as far as its tests
    were run on answer n too.

    Args:
        verdicts: one per turn, in order.
        n: 1-based turn.

    Returns:
        Ratio in [0, 1]; None where nothing had been passed (unscored, not 0), and so always at turn 1.

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or nothing was run on its answer.

    Source: CodeIF-Bench eq. 3 (section 3.2).
    """
    now = _test_sequence(verdicts, n)
    passed_before = {
        i for turn in verdicts[: n - 1] for i, passed in turn.passed.items() if passed and i in now
    }
    if not passed_before:
        return None
    return sum(not now[i] for i in passed_before) / len(passed_before)


@metric("instruction_following_efficiency", version=1, title="IFE")
def instruction_following_efficiency(verdicts: Sequence[TurnVerdicts], n: int) -> float:
    """Instructions given up to turn `n` that its answer passes, by the number of turns that this took.

    Args:
        verdicts: one per turn, in order; each holds the instructions given so far, each once, however often it was given.
        n: 1-based turn, feedback turns counted.

    Returns:
        Ratio in [0, 1]; 1 where each turn gave another instruction and the answer passes them all.

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or nothing was run on its answer.

    Source: CodeIF-Bench eq. 4 (section 3.2).
    """
    return sum(_test_sequence(verdicts, n).values()) / n
