"""Instruction following in a conversation (CodeIF-Bench section 3.2, equations 1 to 4).

Each metric is a pure function of one dialogue's verdicts. Verdicts can be missing because of a
missing answer or a failure of the infrastructure. The benchmark's scoring calls a metric only if
all verdicts that it reads exist. Ratios are in [0, 1].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.metrics.registry import metric


@dataclass(frozen=True)
class TurnVerdicts:
    """Verdicts of the tests on the answer of one turn."""

    instruction_id: str
    """Instruction of this turn, I_n."""
    passed: Mapping[str, bool]
    """Instruction -> True if the answer passes its tests, for each tested instruction."""


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
    """Return 1 if the answer of turn `n` passes the tests of that turn's instruction, else 0.

    Args:
        verdicts: one per turn, in order.
        n: 1-based turn.

    Returns:
        1.0 or 0.0; the mean over tasks is the paper's IA_n.

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or the turn's instruction has no verdict.

    Source: CodeIF-Bench eq. 1 (section 3.2).
    """
    turn = _turn(verdicts, n)
    if turn.instruction_id not in turn.passed:
        raise ValueError(f"turn {n} has no verdict of its own instruction {turn.instruction_id!r}")
    return float(turn.passed[turn.instruction_id])


@metric("conversation_accuracy_strict", version=1, title="CA")
def conversation_accuracy_strict(verdicts: Sequence[TurnVerdicts], n: int) -> float:
    """Return 1 if the answer of turn `n` passes all tests T_1..T_n, else 0.

    Args:
        verdicts: one per turn, in order; each holds T_1..T_n without instructions that contradict
            earlier ones.
        n: 1-based turn.

    Returns:
        1.0 or 0.0; the mean over tasks is the value in the paper's Table 5 (static).

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or no test was run on the turn's answer.

    Source: CodeIF-Bench Table 5 (section 5.1).
    """
    return float(all(_test_sequence(verdicts, n).values()))


@metric("conversation_accuracy_fraction", version=1, title="CA share")
def conversation_accuracy_fraction(verdicts: Sequence[TurnVerdicts], n: int) -> float:
    """Return the share of the instructions T_1..T_n that the answer of turn `n` passes.

    Args:
        verdicts: one per turn, in order; each holds T_1..T_n without instructions that contradict
            earlier ones.
        n: 1-based turn.

    Returns:
        Ratio in [0, 1].

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or no test was run on the turn's answer.

    Source: CodeIF-Bench eq. 2 (section 3.2).
    """
    passed = _test_sequence(verdicts, n).values()
    return sum(passed) / len(passed)


@metric("instruction_forgetting_ratio", version=1, title="IFR", better="lower")
def instruction_forgetting_ratio(verdicts: Sequence[TurnVerdicts], n: int) -> float | None:
    """Return the share of earlier passed instructions that the answer of turn `n` fails.

    The denominator PTS is the set of instructions that at least one of the answers A_1..A_{n-1}
    passed and whose tests were run on answer n too.

    Args:
        verdicts: one per turn, in order.
        n: 1-based turn.

    Returns:
        Ratio in [0, 1]; None (unscored, not 0) if PTS is empty, which is always so at turn 1.

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or no test was run on the turn's answer.

    Source: CodeIF-Bench eq. 3 (section 3.2).
    """
    current = _test_sequence(verdicts, n)
    passed_before = {
        i
        for turn in verdicts[: n - 1]
        for i, passed in turn.passed.items()
        if passed and i in current
    }
    if not passed_before:
        return None
    return sum(not current[i] for i in passed_before) / len(passed_before)


@metric("instruction_following_efficiency", version=1, title="IFE")
def instruction_following_efficiency(verdicts: Sequence[TurnVerdicts], n: int) -> float:
    """Return the number of instructions that the answer of turn `n` passes, divided by `n`.

    Args:
        verdicts: one per turn, in order; each holds the distinct instructions given so far.
        n: 1-based turn, feedback turns included.

    Returns:
        Ratio in [0, 1]; 1 if each turn gave a new instruction and the answer passes all of them.

    Raises:
        ValueError: `n` is outside 1..len(verdicts), or no test was run on the turn's answer.

    Source: CodeIF-Bench eq. 4 (section 3.2).
    """
    return sum(_test_sequence(verdicts, n).values()) / n
